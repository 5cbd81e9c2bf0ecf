import { rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { dataFolder } from '@wardline/contract'
import { isLoopback, reachableUrl } from '@wardline/text'
import { createApp } from './app.ts'
import { type UnopenedService, unopenedService } from './before-listening.ts'
import { type Config, describeConfig } from './config/config.ts'
import { type Deps, type DepsOptions, openDeps } from './deps.ts'
import { localActor } from './features/audit/audit.ts'
import { ensureAdminKey } from './features/keys/bootstrap.ts'
import { createLoginCode } from './features/keys/login-codes.ts'
import { addFirstRules } from './features/rules/first-rules.ts'
import { readWarnings } from './features/system/warnings.ts'
import { listenForModels } from './gateway-process.ts'
import { type DecoyListener, openDecoyListener } from './http/decoy-listener.ts'
import { httpLimits } from './http/limits.ts'
import { listenFault } from './http/listen-fault.ts'
import { sendWithin } from './http/send-within.ts'
import { randomBetween } from './ids.ts'
import { type JobOptions, listJobs, startJobs } from './jobs.ts'
import type { Log } from './log.ts'
import { writePrivateFile } from './secrets.ts'
import { closeServices, closeStreams, openServices, type Services } from './services.ts'

export interface RunningServer {
  url: string
  /** Admin key created at the first startup; undefined at later ones. */
  createdKey: { key: string; file: string; createLoginCode(): Promise<string> } | undefined
  /** Stops accepting requests, finishes running ones, writes queued data and closes the database. */
  close(): Promise<void>
}

/** Minimum and maximum of the random reconnect delays that streams get on shutdown. */
const reconnectAfterMs = [1_000, 10_000] as const
const closeIdleEveryMs = 100
/** Most responsive receivers respond within this time. Other attempts are retried by the next process. */
const finishAttemptsWithinMs = 3_000

/** Says whether the stream and the metrics need a key, and why. */
function logAccess(config: Config, log: Log): void {
  const described = describeConfig(config)
  for (const [path, name] of [
    ['/api/stream', 'WARDLINE_STREAM_AUTH'],
    ['/metrics', 'WARDLINE_METRICS_AUTH'],
  ]) {
    const { value, reason = `${name} is ${value}` } = described.find((setting) => setting.name === name)!
    log.info(`${path} needs ${value === 'none' ? 'no key' : 'a key'}, because ${reason}`)
  }
}

function warnOfExposure(config: Config, { log }: Deps): void {
  if (config.apiKey !== undefined) {
    log.warn(
      'WARDLINE_API_KEY has full access: an agent with this key can resume itself and delete decoys; give agents keys of scope agent',
    )
  }
  if (config.trustedProxies && !config.publicUrl && !config.allowedHosts) {
    log.warn('behind a proxy, set WARDLINE_PUBLIC_URL: requests with unknown host names are refused (421)')
  }
  logAccess(config, log)
  if (isLoopback(config.host)) return
  const open = [
    '/api/public/trust',
    '/.well-known/agent-registration.json',
    '/healthz',
    '/readyz',
    '/openapi.json',
    '/docs',
    '/sdk.tgz',
    '/wardline.py',
  ]
  if (config.streamAuth === 'none') open.push('/api/stream (every event)')
  if (config.metricsAuth === 'none') open.push('/metrics')
  log.warn({ host: config.host, open }, 'listening beyond this machine; these paths need no key')
}

/** Logs the active channels, or that none is set up. */
function logChannels({ routingTable }: Services, { config, log }: Deps): void {
  const channels = routingTable.current.channels.filter(({ enabled }) => enabled).map(({ id }) => id)
  log.info({ channels }, channels.length > 0 ? 'alerts go to these channels' : 'no channel for alerts is set up')
  if (config.alertWebhookUrl !== undefined && config.alertWebhookSecrets === undefined) {
    log.warn('ALERT_WEBHOOK_URL without ALERT_WEBHOOK_SECRET: its receiver cannot distinguish alerts from forged ones')
  }
}

async function listenForDecoys(deps: Deps, { decoyFetches }: Services): Promise<DecoyListener | undefined> {
  const { decoyPort, host, decoyHost = host } = deps.config
  if (decoyPort === undefined) return undefined
  return openDecoyListener(deps, decoyFetches).catch((fault) =>
    Promise.reject(listenFault(decoyHost, decoyPort, fault, 'WARDLINE_DECOY_')),
  )
}

interface StartOptions extends DepsOptions, JobOptions {
  /** Work with the whole service before it listens and its timers start. */
  beforeListening?: (service: UnopenedService) => Promise<void>
}

/** Opens all dependencies and listens. Rejects with a plain sentence if something cannot be opened. */
export async function startServer(config: Config, options: StartOptions = {}): Promise<RunningServer> {
  const deps = await openDeps(config, options)
  try {
    // Before the first key, whose audit entry shows that the database is in use.
    await addFirstRules(deps)
    const created = await ensureAdminKey(deps)
    const services = await openServices(deps)
    const app = await createApp(deps, services)
    const jobs = listJobs(deps, services, options)
    const { beforeListening } = options
    if (beforeListening) {
      await deps.database.withLateSync(() => beforeListening(unopenedService(sendWithin(app), services, jobs)))
    }
    // Before the service listens: from then on, a signal has to find its handler.
    const warnings = await readWarnings(deps, services)
    // Opened first: a process that fails to start must not answer on its main port before, or keep it.
    const decoyListener = await listenForDecoys(deps, services)
    const gateway = await listenForModels(deps, services)
    await app.listen({ host: config.host, port: config.port, backlog: httpLimits.backlog }).catch(async (fault) => {
      await Promise.all([decoyListener?.close(), gateway?.close(0)])
      const unlisted = listenFault(config.host, config.port, fault)
      // The next start is not the first one and says nothing of the key.
      if (created)
        unlisted.message += ` The admin key of this database is stored in ${join(config.dataDir, 'admin-key')}.`
      throw unlisted
    })
    const stopJobs = startJobs(jobs, deps, services)
    const { port } = app.server.address() as AddressInfo
    const host = config.host.includes(':') ? `[${config.host}]` : config.host
    const url = `http://${host}:${port}`
    const addressFile = join(config.dataDir, dataFolder.addressFile)
    writePrivateFile(addressFile, `${reachableUrl(url)}\n`)
    deps.log.info({ url, dataDir: config.dataDir }, 'listening')
    // After startup, V8's young generation may grow with the load.
    setFlagsFromString('--semi-space-growth-factor=2')
    if (gateway) deps.log.info({ port: gateway.port }, 'listening for calls of models')
    if (decoyListener) deps.log.info({ port: decoyListener.port }, 'listening for fetches of decoy URLs')
    warnOfExposure(config, deps)
    logChannels(services, deps)
    for (const warning of warnings) deps.log.warn(warning)

    async function close() {
      const reconnectAfter = () => randomBetween(...reconnectAfterMs)
      closeStreams(services, reconnectAfter)
      const giveUp = setTimeout(() => app.server.closeAllConnections(), httpLimits.closeWithinMs)
      // Closes connections that become idle when their last request ends.
      const sweep = setInterval(() => app.server.closeIdleConnections(), closeIdleEveryMs)
      await Promise.all([app.close(), decoyListener?.close(), gateway?.close(httpLimits.closeWithinMs)])
      clearTimeout(giveUp)
      clearInterval(sweep)
      await closeServices(services, deps, { stopJobs, graceMs: finishAttemptsWithinMs })
      await deps.close()
      rmSync(addressFile, { force: true })
      deps.log.info('stopped')
    }
    return {
      url,
      createdKey: created && {
        key: created.key,
        file: join(config.dataDir, 'admin-key'),
        createLoginCode: async () =>
          (await createLoginCode(deps.database, created.id, localActor('system'), deps.clock.now())).code,
      },
      close,
    }
  } catch (fault) {
    await deps.close()
    throw fault
  }
}
