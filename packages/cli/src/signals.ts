import { exitCodes } from './exit.ts'

/** npm forwards Ctrl-C to a process that the terminal has already signaled; both signals count as one. */
const echoMs = 500

/** Calls `stop` on the first SIGINT or SIGTERM; a later one ends the process without waiting. */
export function onStopSignal(stop: () => void): void {
  let stoppedAt: number | undefined
  const hear = () => {
    if (stoppedAt !== undefined) {
      if (performance.now() - stoppedAt > echoMs) process.exit(exitCodes.failed)
      return
    }
    stoppedAt = performance.now()
    stop()
  }
  process.on('SIGTERM', hear)
  process.on('SIGINT', hear)
}

/** Closes on the first signal, and then ends the process. */
export function closeOnSignal(close: () => Promise<void>): void {
  onStopSignal(() => {
    close().then(
      () => process.exit(0),
      (fault) => {
        console.error((fault as Error).message)
        process.exit(exitCodes.failed)
      },
    )
  })
}

/** Ends the process after an error that requires a restart. */
export const onFatal = (fault: Error): void => {
  console.error(`Fatal: ${fault.message}`)
  process.exit(exitCodes.fatal)
}
