import { mkdtempSync, rmSync } from 'node:fs'
import type { OutgoingHttpHeaders } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type Endpoint, endpoints, type Scope } from '@wardline/contract'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import { Compile } from 'typebox/schema'
import { createApp } from './app.ts'
import { manualClock } from './clock.ts'
import { databaseFile, readConfig } from './config.ts'
import type { Database } from './db/database.ts'
import { openSqlite } from './db/sqlite.ts'
import { type Deps, openDeps } from './deps.ts'
import { localActor } from './features/audit/audit.ts'
import { createKey } from './features/keys/keys.ts'
import { createLog } from './log.ts'
import { openServices, type Services } from './services.ts'

export type Method = 'GET' | 'POST' | 'DELETE' | 'OPTIONS' | 'HEAD' | 'PUT'

export interface CallOptions {
  /** Sent as X-Monitor-Key: the admin key when absent, no header at all when null. */
  key?: string | null
  /** An object or array is sent as JSON, a string or buffer as it stands. */
  body?: unknown
  headers?: Record<string, string>
}

export interface Answer<Body> {
  status: number
  headers: OutgoingHttpHeaders
  text: string
  /** The parsed JSON; undefined when the answer holds none. */
  body: Body
}

export interface TestService extends AsyncDisposable {
  deps: Deps
  services: Services
  app: FastifyInstance
  clock: ReturnType<typeof manualClock>
  /** Every line that was logged. */
  logged: string[]
  /** The database, for a second connection. */
  file: string
  /** One request without a socket. Throws when the body of a success is not exactly what the contract says. */
  call<Body = unknown>(method: Method, url: string, options?: CallOptions): Promise<Answer<Body>>
  /** Creates a key; agent keys are bound to `instances`, `agent-*` unless told. */
  createKey(scope: Scope, instances?: string[], expiresAt?: string): Promise<{ id: string; key: string }>
  /** Reads the database directly, over a connection of its own to what is committed. */
  rows<Row = Record<string, unknown>>(statement: string): Promise<Row[]>
}

export interface TestServiceOptions {
  env?: Record<string, string>
  /** The folder of another service whose database this one shares. */
  dataDir?: string
  clock?: ReturnType<typeof manualClock>
}

/** Given by the environment, so that no test pays for creating it. */
export const adminKey = 'the-administrator-key-of-all-the-tests'

/** The schema without room for anything it does not name. */
function strict(schema: unknown): unknown {
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

/** Opens the whole service on a real database in a folder of its own, without listening, with a clock that stands. */
export async function openTestService(options: TestServiceOptions = {}): Promise<TestService> {
  const { clock = manualClock(), dataDir = mkdtempSync(join(tmpdir(), 'wardline-test-')) } = options
  const config = readConfig({ WARDLINE_DATA_DIR: dataDir, WARDLINE_API_KEY: adminKey, ...options.env })
  const logged: string[] = []
  const log = createLog('debug', { write: (line) => void logged.push(line) })
  const deps = await openDeps(config, { clock, log })
  const services = await openServices(deps)
  const app = await createApp(deps, services)

  return {
    deps,
    services,
    app,
    clock,
    logged,
    file: databaseFile(config),

    async call<Body>(method: Method, url: string, { key = adminKey, body, headers = {} }: CallOptions = {}) {
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
    },

    async createKey(scope, instances, expiresAt) {
      const request = {
        scope,
        name: `${scope} of a test`,
        ...(scope === 'agent' ? { instances: instances ?? ['agent-*'] } : {}),
        ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
      }
      const created = await createKey(deps.database.db, request, localActor('system'), clock.now())
      await services.keyring.refresh()
      return created
    },

    async rows<Row>(statement: string) {
      const connection = new DatabaseSync(databaseFile(config), { readOnly: true })
      try {
        return connection.prepare(statement).all() as Row[]
      } finally {
        connection.close()
      }
    },

    async [Symbol.asyncDispose]() {
      services.eventStream.close(() => 0)
      services.controlStream.close(() => 0)
      await app.close()
      await Promise.all([services.ingest.whenIdle(), services.heartbeats.whenIdle()])
      await deps.close()
      if (options.dataDir === undefined) rmSync(dataDir, { recursive: true })
    },
  }
}

export interface TestDatabase extends AsyncDisposable {
  database: Database
  file: string
  /** A connection that knows nothing of the service. */
  outside: DatabaseSync
}

/** Opens an empty database, without a schema, in a folder of its own. */
export async function openTestDatabase(): Promise<TestDatabase> {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-test-'))
  const file = join(folder, 'test.db')
  const database = await openSqlite(file, () => {})
  const outside = new DatabaseSync(file)
  return {
    database,
    file,
    outside,
    async [Symbol.asyncDispose]() {
      outside.close()
      await database.close()
      rmSync(folder, { recursive: true })
    },
  }
}
