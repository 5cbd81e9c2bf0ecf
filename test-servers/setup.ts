import { Client } from 'pg'
import type { TestProject } from 'vitest/node'
import { startPostgres } from './postgres.ts'
import { startRedis } from './redis.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** URL of a database in which tests create schemas or databases; undefined without PostgreSQL. */
    postgresUrl: string | undefined
    /** Prefix of the names of schemas that tests create. */
    schemaPrefix: string
    /** Reason to skip tests that need PostgreSQL. */
    postgresMissing: string | undefined
    /** URL of a server that all tests share, so names of channels and keys must be unique; undefined without Redis. */
    redisUrl: string | undefined
    /** Reason to skip tests that need Redis. */
    redisMissing: string | undefined
  }
}

interface Shared {
  url?: string
  missing?: string
  stop(): Promise<void>
}

/** Uses a configured server as it is. A server that merely listens on this machine may be in use, so it is not used. */
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
  Promise.all([
    share(process.env.TEST_POSTGRES_URL, () => startPostgres({ inMemory: true })),
    share(process.env.TEST_REDIS_URL, startRedis),
  ])

// Each project loads this file; all of them share the servers.
const run = globalThis as { wardlineTestServers?: ReturnType<typeof startAll> }
const schemaPrefix = `test_${process.pid}_`

/** Removes schemas of the tests from a configured server. */
async function dropSchemas(url: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query(`select nspname as name from pg_namespace where starts_with(nspname, $1)`, [
    schemaPrefix,
  ])
  for (const { name } of rows) await client.query(`drop schema ${name} cascade`)
  await client.end()
}

/** Called once for each project with tests. */
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
