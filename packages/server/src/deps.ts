import { createHmac } from 'node:crypto'
import type { Bus } from './bus/bus.ts'
import { createMemoryBus } from './bus/memory.ts'
import { type Clock, systemClock } from './clock.ts'
import { type Config, databaseFile } from './config.ts'
import { assertComplete } from './db/copy.ts'
import type { Database } from './db/database.ts'
import { claimFact } from './db/facts.ts'
import { migrate } from './db/migrate.ts'
import { openDatabase } from './db/open.ts'
import { DatabaseError } from './errors.ts'
import { createLog, type Log } from './log.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { openDataDir, openSecrets, type Secrets } from './secrets.ts'

/** What every feature may use. */
export interface Deps {
  config: Config
  database: Database
  bus: Bus
  clock: Clock
  log: Log
  metrics: Metrics
  secrets: Secrets
  close(): Promise<void>
}

export interface DepsOptions {
  clock?: Clock
  log?: Log
  /** Hears of a fault after which only a new process may go on. */
  onFatal?: (fault: Error) => void
}

/** Opens everything from the configuration. Rejects with a plain sentence when something cannot be opened. */
export async function openDeps(config: Config, options: DepsOptions = {}): Promise<Deps> {
  const { clock = systemClock, log = createLog(config.logLevel), onFatal = () => {} } = options
  openDataDir(config.dataDir)
  const secrets = openSecrets(config)
  const database = await openDatabase(config.databaseUrl ?? `sqlite:${databaseFile(config)}`, onFatal)
  try {
    await migrate(database, clock.now())
    await assertComplete(database.db)
    // Days are made a week ahead: one that cannot be made just now is made by and by.
    await database.prepareDays(clock.now()).catch((fault) => log.warn({ err: fault }, 'days not prepared yet'))
    const check = createHmac('sha256', secrets.decoyKey).update('secret_check').digest('hex')
    if ((await claimFact(database.db, 'secret_check', check)) !== check) {
      // With another secret no decoy would ever match again, and nobody would notice.
      throw new DatabaseError(
        'The master secret does not belong to this database: restore the right WARDLINE_SECRET or secret file.',
      )
    }
  } catch (fault) {
    await database.close()
    throw fault
  }
  const metrics = createMetrics()
  const bus = await openBus({ config, database, clock, log, metrics, secrets })
  return {
    config,
    database,
    bus,
    clock,
    log,
    metrics,
    secrets,
    close: async () => {
      await bus.close()
      await database.close()
    },
  }
}

async function openBus({ config, database, ...tools }: Omit<Deps, 'bus' | 'close'>): Promise<Bus> {
  const { backplaneUrl: url, eventsChannel, controlChannel } = config
  if (url === undefined) {
    // There is nothing that could be up: an alert on 0 must not fire.
    tools.metrics.registry.removeSingleMetric('wardline_backplane_up')
    return createMemoryBus({ alone: !database.isShared })
  }
  // The client takes a tenth of a second to load, which only those pay who use it.
  const { RedisBus } = await import('./bus/redis.ts')
  const bus = new RedisBus({ url, eventsChannel, controlChannel, ...tools })
  await bus.open()
  return bus
}
