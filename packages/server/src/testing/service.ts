import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import type { OutgoingHttpHeaders } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Endpoint, endpoints, type KeyScope, sessionHeader } from '@wardline/contract'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import { Compile } from 'typebox/schema'
import { type EmptyDatabase, makeEmptyDatabase } from '../../../../test-servers/empty-database.ts'
import { createApp } from '../app.ts'
import { readConfig } from '../config/config.ts'
import type { Database } from '../db/database.ts'
import { reserveBytes } from '../db/disk-reserve.ts'
import { migrate } from '../db/migrate.ts'
import { openDatabase } from '../db/open.ts'
import { type Deps, openDeps } from '../deps.ts'
import { localActor } from '../features/audit/audit.ts'
import { createKey } from '../features/keys/keys.ts'
import { createLog } from '../log.ts'
import { closeServices, closeStreams, openServices, type Services } from '../services.ts'
import { manualClock } from './clock.ts'

export type Method = 'GET' | 'POST' | 'DELETE' | 'OPTIONS' | 'HEAD' | 'PUT' | 'PATCH'

interface CallOptions {
  /** X-Monitor-Key. Default: the admin key; null = no header. */
  key?: string | null
  /** Objects and arrays are sent as JSON, strings and buffers unchanged. */
  body?: unknown
  headers?: Record<string, string>
}

/** A browser session: the headers that its requests have, and what they are made of. */
export interface TestSession {
  headers: { cookie: string; [sessionHeader]: string }
  cookie: string
  secret: string
  setCookie: string
}

interface Answer<Body> {
  status: number
  headers: OutgoingHttpHeaders
  text: string
  /** Parsed JSON; undefined if the response has none. */
  body: Body
}

export interface TestService extends AsyncDisposable, Omit<EmptyDatabase, 'url'> {
  deps: Deps
  services: Services
  app: FastifyInstance
  clock: ReturnType<typeof manualClock>
  /** All log lines. */
  logged: string[]
  /** Sends a request without a socket. Rejects if the body of a success does not match the contract exactly. */
  call<Body = unknown>(method: Method, url: string, options?: CallOptions): Promise<Answer<Body>>
  /** Opens a browser session, by default with the admin key. */
  signIn(key?: string, headers?: Record<string, string>): Promise<TestSession>
  /** Creates a key; agent keys are bound to `instances` (default: `agent-*`). */
  createKey(scope: KeyScope, instances?: string[], expiresAt?: string): Promise<{ id: string; key: string }>
}

/** Returns the session that a response opened. */
export function sessionOf(headers: OutgoingHttpHeaders, { secret }: { secret: string }): TestSession {
  const setCookie = String(headers['set-cookie'])
  const cookie = setCookie.split(';')[0]!
  return { headers: { cookie, [sessionHeader]: secret }, cookie, secret, setCookie }
}

interface TestServiceOptions {
  env?: Record<string, string>
  /** Data folder of another service, to share its database. */
  dataDir?: string
  clock?: ReturnType<typeof manualClock>
  /** The test measures the database size, so on PostgreSQL the database must not be shared with other tests. */
  isMeasured?: boolean
}

/** Set by the environment, so that tests need not create it. */
export const adminKey = 'the-administrator-key-of-all-the-tests'

/** Returns the schema without allowing additional properties. */
export function strict(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(strict)
  if (typeof schema !== 'object' || schema === null) return schema
  const copy = Object.fromEntries(Object.entries(schema).map(([name, part]) => [name, strict(part)]))
  return 'properties' in copy ? { additionalProperties: false, ...copy } : copy
}

const replyChecks = Object.entries(endpoints as Record<string, Endpoint>).map(([name, { method, path, reply }]) => ({
  name,
  method,
  path: new RegExp(`^${path.replaceAll(/:\w+/g, '[^/]+')}$`),
  reply: reply && Compile(strict(reply) as never),
}))

function assertReply(method: string, url: string, answer: LightMyRequestResponse): void {
  const { pathname } = new URL(url, 'http://localhost')
  const endpoint = replyChecks.find((known) => known.method === method && known.path.test(pathname))
  if (!endpoint?.reply || answer.statusCode >= 300) return
  const body = JSON.parse(answer.body)
  if (endpoint.reply.Check(body)) return
  const [, faults] = endpoint.reply.Errors(body)
  throw new Error(`The reply of ${endpoint.name} breaks the contract: ${JSON.stringify(faults)} in ${answer.body}`)
}

/** Databases of open services, by folder. */
const databases = new Map<string, EmptyDatabase>()

function databaseOf(dataDir: string): EmptyDatabase {
  const database = databases.get(dataDir)
  if (!database) throw new Error(`no service is open in ${dataDir}, whose database another one could share`)
  return database
}

interface Folder {
  dataDir: string
  stored: EmptyDatabase
  remove(): Promise<void>
}

/** Default start time of a test's clock. */
const usualStart = manualClock().now()
let migrated: Promise<Buffer> | undefined

async function migrateAsUsual(url: string): Promise<void> {
  const database = await openDatabase(url, (fault) => {
    throw fault
  })
  await migrate(database, usualStart)
  await database.prepareDays(usualStart)
  await database.close()
}

/** Returns a migrated SQLite file without rows. Created once, because migrating takes longer than most tests. */
async function migratedFile(): Promise<Buffer> {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-test-'))
  const file = join(folder, 'wardline.db')
  try {
    await migrateAsUsual(`sqlite:${file}`)
    return readFileSync(file)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Opens a folder whose database is already migrated if the service starts at the default time, else empty. */
async function openFolder(startMs?: number, isMeasured?: boolean): Promise<Folder> {
  const dataDir = mkdtempSync(join(tmpdir(), 'wardline-test-'))
  const isUsual = startMs === usualStart
  const migrate = isUsual ? migrateAsUsual : undefined
  const stored = await makeEmptyDatabase(dataDir, { migrate, isMeasured })
  if (stored.url.startsWith('sqlite:') && isUsual) {
    migrated ??= migratedFile()
    writeFileSync(stored.url.slice('sqlite:'.length), await migrated, { mode: 0o600 })
  }
  // Tests need no reserved disk space, and creating a sparse file of that size takes no time.
  const reserve = join(dataDir, 'reserve')
  writeFileSync(reserve, '')
  truncateSync(reserve, reserveBytes)
  databases.set(dataDir, stored)
  return {
    dataDir,
    stored,
    async remove() {
      databases.delete(dataDir)
      await stored[Symbol.asyncDispose]()
      rmSync(dataDir, { recursive: true })
    },
  }
}

/**
 * Opens the whole service on a separate real database, without listening, with a manual clock. The test project
 * determines the engine.
 */
export async function openTestService(options: TestServiceOptions = {}): Promise<TestService> {
  const { clock = manualClock() } = options
  const folder: Folder = options.dataDir
    ? { dataDir: options.dataDir, stored: databaseOf(options.dataDir), remove: async () => {} }
    : await openFolder(clock.now(), options.isMeasured)
  try {
    return await openService(folder, clock, options.env)
  } catch (fault) {
    await folder.remove()
    throw fault
  }
}

async function openService(
  { dataDir, stored, remove }: Folder,
  clock: ReturnType<typeof manualClock>,
  env: Record<string, string> = {},
): Promise<TestService> {
  const config = readConfig({
    WARDLINE_DATA_DIR: dataDir,
    WARDLINE_API_KEY: adminKey,
    DATABASE_URL: stored.url,
    ...env,
  })
  const logged: string[] = []
  const log = createLog('debug', { write: (line) => void logged.push(line) })
  const deps = await openDeps(config, { clock, log })
  const services = await openServices(deps)
  const app = await createApp(deps, services)

  async function call<Body>(method: Method, url: string, { key = adminKey, body, headers = {} }: CallOptions = {}) {
    const isPlain = body === undefined || typeof body === 'string' || Buffer.isBuffer(body)
    const answer = await app.inject({
      method,
      url,
      headers: {
        ...(key === null ? {} : { 'x-monitor-key': key }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { payload: isPlain ? body : JSON.stringify(body) }),
    })
    assertReply(method, url, answer)
    const isJson = String(answer.headers['content-type']).startsWith('application/json')
    return {
      status: answer.statusCode,
      headers: answer.headers,
      text: answer.body,
      body: (isJson && answer.body !== '' ? JSON.parse(answer.body) : undefined) as Body,
    }
  }

  return {
    ...stored,
    deps,
    services,
    app,
    clock,
    logged,

    call,

    async signIn(key = adminKey, headers = {}) {
      const {
        status,
        text,
        headers: answered,
        body,
      } = await call<{ secret: string }>('POST', '/api/session', {
        key,
        headers,
      })
      if (status !== 201) throw new Error(`POST /api/session answers ${status}: ${text}`)
      return sessionOf(answered, body)
    },

    async createKey(scope, instances, expiresAt) {
      const request = {
        scope,
        name: `${scope} of a test`,
        ...(scope === 'agent' ? { instances: instances ?? ['agent-*'] } : {}),
        ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
      }
      const created = await createKey(deps.database, request, localActor('system'), clock.now())
      await services.keyring.refresh()
      return created
    },

    async [Symbol.asyncDispose]() {
      closeStreams(services, () => 0)
      await app.close()
      await closeServices(services, deps, { stopJobs: async () => {}, graceMs: 0 })
      await deps.close()
      await remove()
    },
  }
}

export interface TestDatabase extends EmptyDatabase {
  /** The database as opened by the service. */
  database: Database
}

/** Opens a database without a schema. The test project determines the engine. */
export async function openTestDatabase(): Promise<TestDatabase> {
  const { stored, remove } = await openFolder()
  const database = await openDatabase(stored.url, () => {})
  return {
    ...stored,
    database,
    async [Symbol.asyncDispose]() {
      await database.close()
      await remove()
    },
  }
}
