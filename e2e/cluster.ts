import { Client } from 'pg'
import { afterAll, beforeAll, beforeEach } from 'vitest'
import { type PostgresOptions, startPostgres, type TestPostgres } from '../test-servers/postgres.ts'
import { type PostgresPair, startPrimaryWithStandby } from '../test-servers/postgres-pair.ts'
import { startRedis, type TestRedis } from '../test-servers/redis.ts'
import { isExternal, needsOwnProcess, newApiKey, type Service, startService } from './service.ts'

/** Settings that all processes of a deployment share. */
export interface SharedSettings extends Record<string, string> {
  DATABASE_URL: string
  BACKPLANE_URL: string
  WARDLINE_SECRET: string
  WARDLINE_API_KEY: string
}

/** What a test file needs of its PostgreSQL, however many servers that is. */
interface Stoppable {
  stop(): Promise<void>
}

/** Servers that belong to one test file, so that it may kill them. */
interface ServersOf<Postgres> extends Stoppable {
  postgres: Postgres
  redis: TestRedis
}

export type Servers = ServersOf<TestPostgres>

/** Resolves with the reason to skip if this machine has no PostgreSQL or Redis. */
async function startServers<Postgres extends Stoppable>(
  start: () => Promise<Postgres>,
): Promise<ServersOf<Postgres> | string> {
  if (isExternal) return needsOwnProcess
  const [postgres, redis] = await Promise.allSettled([start(), startRedis()])
  if (postgres.status === 'fulfilled' && redis.status === 'fulfilled') {
    const stop = async () => void (await Promise.all([postgres.value.stop(), redis.value.stop()]))
    return { postgres: postgres.value, redis: redis.value, stop }
  }
  for (const server of [postgres, redis]) if (server.status === 'fulfilled') await server.value.stop()
  const { message } = [postgres, redis].flatMap((server) => (server.status === 'rejected' ? server.reason : []))[0]
  if (/^No (PostgreSQL|Redis):/.test(message)) return message
  throw new Error(message)
}

interface ServersOptions {
  postgres?: PostgresOptions
  /** Opens what the tests of the file share, after the servers have started. */
  open?(): Promise<void>
  /** Closes it before the servers stop, even if only a part was opened. */
  close?(): Promise<unknown>
}

/** Starts servers for the tests of one file. Without servers the tests are skipped with the reason. */
export const useServers = ({ postgres = {}, ...options }: ServersOptions = {}): Servers =>
  useServersOf(() => startPostgres(postgres), options)

/** The same with a primary and a synchronous standby. */
export const useReplicatedServers = (): ServersOf<PostgresPair> => useServersOf(startPrimaryWithStandby)

function useServersOf<Postgres extends Stoppable>(
  start: () => Promise<Postgres>,
  { open, close }: Omit<ServersOptions, 'postgres'> = {},
): ServersOf<Postgres> {
  const servers = {} as ServersOf<Postgres>
  let missing = ''
  beforeAll(async () => {
    const started = await startServers(start)
    if (typeof started === 'string') {
      missing = started
      return
    }
    Object.assign(servers, started)
    await open?.()
  })
  beforeEach(({ skip }) => {
    if (missing) skip(missing)
  })
  afterAll(async () => {
    if (missing) return
    await Promise.resolve(close?.()).finally(() => servers.stop?.())
  })
  return servers
}

/** Returns settings for processes on these servers, with a new, empty database. */
export async function sharedSettings({ postgres, redis }: Servers): Promise<SharedSettings> {
  return settingsOn(await postgres.createDatabase(), redis)
}

export const settingsOn = (databaseUrl: string, redis: TestRedis): SharedSettings => ({
  DATABASE_URL: databaseUrl,
  BACKPLANE_URL: redis.url,
  WARDLINE_SECRET: newApiKey(),
  WARDLINE_API_KEY: newApiKey(),
})

/** Starts processes concurrently, each with a separate data folder and port. */
export function startProcesses(settings: Record<string, string>, count: number): Promise<Service[]> {
  return Promise.all(Array.from({ length: count }, () => startService({ env: settings })))
}

/** Runs one statement over a connection outside the service. */
export async function query<Row = Record<string, unknown>>(databaseUrl: string, statement: string): Promise<Row[]> {
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    return (await client.query(statement)).rows
  } finally {
    await client.end()
  }
}

/** Returns a metric without labels or with exactly these (`{channel="events",reason="malformed"}`); 0 if absent. */
export async function readMetric(service: Service, name: string): Promise<number> {
  const { text } = await service.call('GET', '/metrics')
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${name} `))
  return line === undefined ? 0 : Number(line.slice(name.length + 1))
}
