import { type RunningServer, readConfig, startServer } from '@wardline/server'
import type { Command } from 'commander'
import { exitCodes, fail } from './exit.ts'
import { readDemoConfig, startDemo } from './serve-demo.ts'
import { onStopSignal } from './signals.ts'

function showCreatedKey({ createdKey }: RunningServer): void {
  if (!createdKey) return
  console.error(`
  First start: this admin key is shown once, and stored in ${createdKey.file}

    ${createdKey.key}

`)
}

function closeOnSignal(close: () => Promise<void>): void {
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

const onFatal = (fault: Error) => {
  console.error(`Fatal: ${fault.message}`)
  process.exit(exitCodes.fatal)
}

async function serve(): Promise<void> {
  const server = await startServer(readConfig(), { onFatal })
  showCreatedKey(server)
  closeOnSignal(() => server.close())
}

async function serveDemo(): Promise<void> {
  const config = readDemoConfig(process.env)
  const server = await startServer(config, { onFatal })
  try {
    const demo = startDemo(server, config)
    closeOnSignal(async () => {
      await demo.stop()
      await server.close()
    })
    await demo.ended
  } catch (fault) {
    fail(fault)
    await server.close()
  }
}

export function addServe(program: Command): void {
  program
    .command('serve')
    .description('run the service; settings come from the environment (see: wardline config)')
    .option('--demo', 'with a simulated fleet beside it, in a data folder of its own')
    .action(({ demo }: { demo?: boolean }) => (demo ? serveDemo() : serve()))
}
