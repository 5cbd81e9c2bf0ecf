import { type Config, isLogPretty, loginUrl, type RunningServer, readConfig, startServer } from '@wardline/server'
import { reachableUrl } from '@wardline/text'
import type { Command } from 'commander'
import { fail } from './exit.ts'
import { type Demo, prepareDemo, readDemoConfig, startDemo } from './serve-demo.ts'
import { storedAdminKey } from './service/admin-key.ts'
import { localUrl } from './service/settings.ts'
import { closeOnSignal, onFatal } from './signals.ts'
import { version } from './version.ts'

/** Prints the key only to a terminal. Otherwise standard error is a log, which is stored and shipped. */
async function showCreatedKey({ createdKey, url }: RunningServer, { publicUrl }: Config): Promise<void> {
  if (!createdKey) return
  const { file, key } = createdKey
  if (process.stderr.isTTY) {
    const link = loginUrl(publicUrl ?? reachableUrl(url), await createdKey.createLoginCode())
    console.error(`\n  First start: this admin key is shown once, and stored in ${file}\n\n    ${key}\n`)
    console.error(`  This link signs a browser in with it, once and within 10 minutes:\n\n    ${link}\n`)
  } else console.error(`First start: the admin key is stored in ${file}`)
}

/** Name of the command line; in a clone, it is not installed. */
const commandWord = import.meta.url.includes('/src/') ? 'npx wardline' : 'wardline'

/** Formats the welcome screen: address, location of the admin key, next commands. */
export function welcome(url: string, config: Pick<Config, 'apiKey' | 'dataDir'>): string {
  const key = config.apiKey === undefined ? storedAdminKey(config.dataDir)?.place : 'in WARDLINE_API_KEY'
  const settings = url === localUrl ? '' : ` --url ${url}`
  return `
  Wardline ${version} is running.

    Dashboard    ${url}
    API docs     ${url}/docs
    Admin key    ${key ?? 'as issued: the file admin-key no longer exists'}

  Next, in a second terminal in this folder:

    ${commandWord} keys create --scope agent --instance my-agent${settings}
    ${commandWord} tail${settings}

  Ctrl-C stops the service.
`
}

async function serve(): Promise<void> {
  const config = readConfig()
  const server = await startServer(config, { onFatal })
  // At once: a supervisor may stop the service as soon as it says that it listens.
  closeOnSignal(() => server.close())
  await showCreatedKey(server, config)
  if (process.stdout.isTTY && isLogPretty(config)) console.log(welcome(reachableUrl(server.url), config))
}

async function serveDemo(): Promise<void> {
  const config = readDemoConfig(process.env)
  let demo: Demo | undefined
  // An attestation before the breaches of the story would report a perfect score for a fleet shown at high risk.
  const mayAttest = () => demo?.isStoryOver() === true
  const [{ newPast }, { openReceiver }] = await Promise.all([import('./demo/history.ts'), import('./demo/receiver.ts')])
  const past = newPast(config, Date.now())
  // The ports beside that of the service are those of the gateway and of decoy URLs in the guides.
  const receiver = await openReceiver(config.port === 0 ? 0 : config.port + 10)
  if (past) console.log('Preparing a day of history for the demo…')
  const server = await startServer(config, {
    onFatal,
    mayAttest,
    ...(past ? { clock: past.clock } : {}),
    beforeListening: (service) => prepareDemo(service, { config, past, receiverUrl: receiver.url }),
  })
  try {
    const started = await startDemo(server, config)
    demo = started
    closeOnSignal(async () => {
      await started.stop()
      await server.close()
      receiver.close()
    })
    await started.ended
  } catch (fault) {
    fail(fault)
    await server.close()
    receiver.close()
  }
}

export function addServe(program: Command): void {
  program
    .command('serve')
    .description('run the service, configured by environment variables (see: wardline config)')
    .option('--demo', 'with a simulated fleet and a day of its history, in a separate data folder')
    .action(({ demo }: { demo?: boolean }) => (demo ? serveDemo() : serve()))
}
