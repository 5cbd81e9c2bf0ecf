import { Client } from 'pg'
import type { TestProject } from 'vitest/node'
import { startPostgres } from './postgres.ts'
import { startRedis } from './redis.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Of a database in which a test creates a schema or a database. Undefined when there is none. */
    postgresUrl: string | undefined
    /** Begins the names of schemas that tests create. */
    schemaPrefix: string
    /** Why there is no PostgreSQL: the reason to skip a test that needs one. */
    postgresMissing: string | undefined
    /** Of a server that all tests share: names of channels and keys must be a test's own. Undefined when there is none. */
    redisUrl: string | undefined
    /** Why there is no Redis: the reason to skip a test that needs one. */
    redisMissing: string | undefined
  }
}

interface Shared {
  url?: string
  missing?: string
  stop(): Promise<void>
}

/** A given server is used as it is. One that merely listens on this machine may be in use. */
async function share(
  given: string | undefined,
  start: () => Promise<{ url: string; stop(): Promise<void> }>,
): Promise<Shared> {
  if (given) return { url: given, stop: async () => {} }
  try {
    return await start()
  } catch (fault) {
    return { missing: (fault as Error).message, stop: async () => {} }
  }
}

const startAll = () =>
  Promise.all([share(process.env.TEST_POSTGRES_URL, startPostgres), share(process.env.TEST_REDIS_URL, startRedis)])

// Each project loads this file for itself; the servers are one for all of them.
const run = globalThis as { wardlineTestServers?: ReturnType<typeof startAll> }
const schemaPrefix = `test_${process.pid}_`

/** A server that was given keeps no schemas of the tests. */
async function dropSchemas(url: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query(`select nspname as name from pg_namespace where starts_with(nspname, $1)`, [
    schemaPrefix,
  ])
  for (const { name } of rows) await client.query(`drop schema ${name} cascade`)
  await client.end()
}

/** Called once for each project that has tests to run. */
export async function setup(project: TestProject): Promise<void> {
  run.wardlineTestServers ??= startAll()
  const [postgres, redis] = await run.wardlineTestServers
  project.provide('postgresUrl', postgres.url)
  project.provide('schemaPrefix', schemaPrefix)
  project.provide('postgresMissing', postgres.missing)
  project.provide('redisUrl', redis.url)
  project.provide('redisMissing', redis.missing)
}

export async function teardown(): Promise<void> {
  const servers = await run.wardlineTestServers
  if (process.env.TEST_POSTGRES_URL) await dropSchemas(process.env.TEST_POSTGRES_URL)
  await Promise.all(servers?.map(({ stop }) => stop()) ?? [])
}
