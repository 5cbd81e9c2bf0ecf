import { type Config, ConfigError } from './config/config.ts'
import { type Deps, type DepsOptions, openDeps } from './deps.ts'
import { type Gateway, openGateway } from './features/gateway/gateway.ts'
import { httpLimits } from './http/limits.ts'
import { listenFault } from './http/listen-fault.ts'
import { listJobs, startJobs } from './jobs.ts'
import { closeServices, closeStreams, openGatewayServices, type Services } from './services.ts'

/** Listens on WARDLINE_GATEWAY_PORT; undefined if it is not set. */
export async function listenForModels(deps: Deps, services: Services): Promise<Gateway | undefined> {
  const { gatewayPort, host, gatewayHost = host } = deps.config
  if (gatewayPort === undefined) return undefined
  return openGateway(deps, services).catch((fault) =>
    Promise.reject(
      fault.code === undefined ? fault : listenFault(gatewayHost, gatewayPort, fault, 'WARDLINE_GATEWAY_'),
    ),
  )
}

/** Faults of a configuration that cannot run the gateway alone. */
function assertAlone({ gatewayPort, databaseUrl }: Config): void {
  if (gatewayPort === undefined) {
    throw new ConfigError(['`wardline gateway` needs WARDLINE_GATEWAY_PORT, the port that it listens on.'])
  }
  if (databaseUrl === undefined || databaseUrl.startsWith('sqlite:')) {
    throw new ConfigError([
      '`wardline gateway` needs PostgreSQL (DATABASE_URL), because one process owns an SQLite database: set WARDLINE_GATEWAY_PORT on the service instead.',
    ])
  }
}

/** Opens only the model gateway, on the database of a service. Rejects with a plain sentence if it cannot. */
export async function startGateway(config: Config, options: DepsOptions = {}): Promise<{ close(): Promise<void> }> {
  assertAlone(config)
  const deps = await openDeps(config, options)
  try {
    const services = await openGatewayServices(deps)
    const gateway = (await listenForModels(deps, services))!
    const jobs = listJobs(deps, services).filter(({ ofGateway }) => ofGateway)
    const stopJobs = startJobs(jobs, deps, services)
    deps.log.info({ port: gateway.port }, 'listening for calls of models')
    if (config.backplaneUrl === undefined) {
      deps.log.warn('without BACKPLANE_URL, open calls of a suspended agent are cut within a second, not at once')
    }
    return {
      async close() {
        await gateway.close(httpLimits.closeWithinMs)
        closeStreams(services, () => 0)
        await closeServices(services, deps, { stopJobs, graceMs: 0 })
        await deps.close()
        deps.log.info('stopped')
      },
    }
  } catch (fault) {
    await deps.close()
    throw fault
  }
}
