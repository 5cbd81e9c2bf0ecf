import { createHmac } from 'node:crypto'
import type { Bus } from './bus/bus.ts'
import { ControlSigner } from './bus/control-signer.ts'
import { createMemoryBus } from './bus/memory.ts'
import { type Clock, systemClock } from './clock.ts'
import { type Config, ConfigError, currentUrl, databaseFile } from './config/config.ts'
import { assertComplete } from './db/copy.ts'
import type { Database } from './db/database.ts'
import { claimFact } from './db/facts.ts'
import { migrate } from './db/migrate.ts'
import { openDatabase } from './db/open.ts'
import { keepTime, type Timekeeping } from './db/timekeeping.ts'
import { createLog, type Log, logDestination } from './log.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { openDataDir, openSecrets, type Secrets } from './secrets.ts'

/** Dependencies of every feature. */
export interface Deps {
  config: Config
  database: Database
  bus: Bus
  /** The database's time, if its clock is separate from this machine's. */
  clock: Clock
  timekeeping: Timekeeping
  log: Log
  metrics: Metrics
  secrets: Secrets
  controlSigner: ControlSigner
  /** Call it on errors that require a restart of the process. */
  onFatal: (fault: Error) => void
  close(): Promise<void>
}

export interface DepsOptions {
  clock?: Clock
  log?: Log
  /** Called on errors that require a restart of the process. */
  onFatal?: (fault: Error) => void
}

/** Opens all dependencies from the configuration. Rejects with a plain sentence if one cannot be opened. */
export async function openDeps(config: Config, options: DepsOptions = {}): Promise<Deps> {
  const { log = createLog(config.logLevel, logDestination(config)), onFatal = () => {} } = options
  const warning = openDataDir(config.dataDir)
  if (warning !== undefined) log.warn(warning)
  const secrets = openSecrets(config)
  const databaseUrl = () => currentUrl(config, 'databaseUrl') ?? `sqlite:${databaseFile(config)}`
  const database = await openDatabase(databaseUrl(), onFatal, databaseUrl)
  const metrics = createMetrics()
  // A given clock is not corrected by the database's, because tests control it.
  const source = options.clock ? { serverTime: async () => undefined } : database
  const timekeeping = keepTime(options.clock ?? systemClock, source, { log, metrics })
  const { clock } = timekeeping
  try {
    await timekeeping.check()
    await migrate(database, clock.now())
    await assertComplete(database.db)
    // Days are prepared a week ahead, so a failure now can be retried later.
    await database.prepareDays(clock.now()).catch((fault) => log.warn({ err: fault }, 'days not prepared yet'))
    const check = createHmac('sha256', secrets.decoyKey).update('secret_check').digest('hex')
    if ((await claimFact(database.db, 'secret_check', check)) !== check) {
      // With a different secret, decoys would silently never match again.
      throw new ConfigError([
        'The master secret does not belong to this database: set WARDLINE_SECRET, or the file secret in the data folder, to the secret the database was created with.',
      ])
    }
  } catch (fault) {
    await database.close()
    throw fault
  }
  const bus = await openBus({ config, database, clock, timekeeping, log, metrics, secrets })
  return {
    config,
    database,
    bus,
    clock,
    timekeeping,
    log,
    metrics,
    secrets,
    controlSigner: new ControlSigner(secrets),
    onFatal,
    close: async () => {
      await bus.close()
      await database.close()
    },
  }
}

async function openBus({
  config,
  database,
  ...tools
}: Omit<Deps, 'bus' | 'controlSigner' | 'onFatal' | 'close'>): Promise<Bus> {
  const { backplaneUrl: url, eventsChannel, controlChannel } = config
  if (url === undefined) {
    // Without a backplane the metric must be absent, so that an alert on 0 does not fire.
    tools.metrics.registry.removeSingleMetric('wardline_backplane_up')
    return createMemoryBus({ alone: !database.isShared })
  }
  // Import the client only when it is used: loading it takes a tenth of a second.
  const { RedisBus } = await import('./bus/redis.ts')
  const bus = new RedisBus({ url: () => currentUrl(config, 'backplaneUrl')!, eventsChannel, controlChannel, ...tools })
  await bus.open()
  return bus
}
