import { type RunningServer, readConfig, startServer } from '@wardline/server'
import type { Command } from 'commander'
import { exitCodes } from './exit.ts'

function showCreatedKey({ createdKey }: RunningServer): void {
  if (!createdKey) return
  console.error(`
  First start: this admin key is shown once, and stored in ${createdKey.file}

    ${createdKey.key}

`)
}

/** Stops on the first signal; a second one does not wait. */
function stopOnSignal(close: () => Promise<void>): void {
  let stopping = false
  const stop = () => {
    if (stopping) process.exit(exitCodes.failed)
    stopping = true
    close().then(
      () => process.exit(0),
      (fault) => {
        console.error((fault as Error).message)
        process.exit(exitCodes.failed)
      },
    )
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
}

export function addServe(program: Command): void {
  program
    .command('serve')
    .description('run the service; settings come from the environment (see: wardline config)')
    .action(async () => {
      const server = await startServer(readConfig(), {
        onFatal: (fault) => {
          console.error(`Fatal: ${fault.message}`)
          process.exit(exitCodes.fatal)
        },
      })
      showCreatedKey(server)
      stopOnSignal(() => server.close())
    })
}
