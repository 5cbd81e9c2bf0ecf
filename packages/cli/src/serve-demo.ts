import { createClient } from '@wardline/contract'
import { type Config, type RunningServer, readConfig, settings, type UnopenedService } from '@wardline/server'
import { reachableUrl } from '@wardline/text'
import type { Past } from './demo/history.ts'
import { receiverNetwork } from './demo/receiver.ts'
import { type FoundKey, shellWord, storedAdminKey } from './service/admin-key.ts'
import { givenKey, killCommand } from './simulate/key.ts'
import { printLines } from './simulate/progress.ts'

const demoAgents = 20
const demoSeed = 1

/** Sets the defaults of the demo: a separate data folder, log level `warn`, and alerts to its own receiver. */
export function demoEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return {
    ...env,
    [settings.dataDir.env]: env[settings.dataDir.env] || './data-demo',
    [settings.logLevel.env]: env[settings.logLevel.env] || 'warn',
    [settings.alertAllowCidrs.env]: [env[settings.alertAllowCidrs.env] || [], receiverNetwork].flat().join(),
  }
}

/** Throws Error with one sentence if a database is configured, because the demo would write to it. */
export function readDemoConfig(env: NodeJS.ProcessEnv): Config {
  const config = readConfig(demoEnvironment(env))
  if (config.databaseUrl !== undefined) {
    throw new Error(
      `${settings.databaseUrl.env} is set, and the demo would write its fleet to that database: unset it.`,
    )
  }
  return config
}

function demoKey(config: Config): FoundKey {
  if (config.apiKey !== undefined) return givenKey(config.apiKey, `in ${settings.apiKey.env}`)
  const stored = storedAdminKey(config.dataDir)
  if (stored) return stored
  throw new Error(`The admin-key file of ${config.dataDir} is missing: remove the folder to start a new demo.`)
}

export function welcome(url: string, dataDir: string, key: Omit<FoundKey, 'key'>, instanceId: string): string {
  return `
  Wardline demo: ${demoAgents} simulated agents, all tagged demo, in ${dataDir}

    Dashboard     ${url}/
    Interface     ${url}/docs
    Live stream   curl -N ${shellWord(`${url}/api/stream`)}
    Admin key     ${key.place}

  Stop an agent, and see it stop below:

    ${killCommand(url, instanceId, key)}

  Resume it with the same command, /api/resume/ instead of /api/kill/, without -d. Ctrl-C ends the demo.
`
}

/**
 * Prepares the service before it listens: a new one lives through the past, and alerts go to the receiver of the demo.
 */
export async function prepareDemo(
  service: UnopenedService,
  { config, past, receiverUrl }: { config: Config; past: Past | undefined; receiverUrl: string },
): Promise<void> {
  // Imported here, because a service without the demo needs no agents.
  const [{ liveThrough }, { connectReceiver }] = await Promise.all([
    import('./demo/history.ts'),
    import('./demo/receiver.ts'),
  ])
  const { key } = demoKey(config)
  await connectReceiver(createClient({ url: 'http://127.0.0.1', key, send: service.send }), receiverUrl)
  if (past) await liveThrough(past, service, { key, size: demoAgents, seed: demoSeed })
}

export interface Demo {
  /** Settles when the fleet has stopped. */
  ended: Promise<void>
  isStoryOver(): boolean
  stop(): Promise<void>
}

/** Runs the fleet in the process of the service until it is stopped. Its agents use HTTP like any other agent. */
export async function startDemo(server: RunningServer, config: Config): Promise<Demo> {
  // Imported here, because a service without the demo needs no agents.
  const { createFleet } = await import('./simulate/fleet.ts')
  const url = reachableUrl(server.url)
  const found = demoKey(config)
  const end = new AbortController()
  const fleet = createFleet({
    url,
    key: found.key,
    agents: demoAgents,
    seed: demoSeed,
    speed: 1,
    isContained: true,
    isSteady: true,
    signal: end.signal,
    killLine: (instanceId) => killCommand(url, instanceId, found),
  })
  console.log(welcome(url, config.dataDir, found, 'demo-support-bot-1'))
  const progress = printLines(process.stdout, fleet.figures)
  const ended = fleet.run(progress.say).finally(progress.stop)
  return {
    ended,
    isStoryOver: fleet.isStoryOver,
    async stop() {
      end.abort()
      await ended
    },
  }
}
