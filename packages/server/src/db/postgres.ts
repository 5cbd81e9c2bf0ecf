import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
} from 'kysely'
import type { Pool, PoolClient } from 'pg'
import { DatabaseError } from '../errors.ts'
import type { Database, Row, Statement } from './database.ts'
import { abandonedAfterMs, endAbandoned } from './postgres-abandoned.ts'
import { PostgresBatch, parserOf } from './postgres-batch.ts'
import { change, openChanges } from './postgres-change.ts'
import { expiredDays, prepareDays } from './postgres-days.ts'
import { postgresDialect } from './postgres-dialect.ts'
import { breaksConnection, isWorthRepeating, startFault, toDatabaseError } from './postgres-errors.ts'
import { connectTo, PostgresServers, timelineOf } from './postgres-servers.ts'
import { noteDeleted, usedBytes } from './postgres-size.ts'
import { ScanLane } from './scan-lane.ts'
import type { Schema } from './schema.ts'

/** First version with reliable partitioned tables and support for the statements used here. */
const oldestVersion = 150_000

/** Connections per process: eleven in all, so that several processes fit into PostgreSQL's default limit of 100. */
const writers = 4
/** For control changes when all writers are busy. */
const controllers = 1
const readers = 4
const scanners = 2
/** Maximum wait for a connection or a result before the caller gets an error. */
const deadlineMs = 1_750
const maxAttempts = 3

/** The idle connections of a database, by pool. */
const unusedOf = new WeakMap<Pool, Set<PoolClient>>()

/**
 * Closes the idle connections after one connection stopped responding. Usually all of them are dead, because a firewall
 * dropped them or the server was replaced, and each would cost another caller the whole deadline.
 */
function dropUnused(pool: Pool): void {
  for (const { connection } of unusedOf.get(pool) ?? []) connection.stream.destroy()
}

function openPool(servers: PostgresServers, name: string, max: number, unused: Set<PoolClient>): Pool {
  const pool = servers.open({
    application_name: `wardline ${name}`,
    max,
    connectionTimeoutMillis: deadlineMs,
    // Cancels shortly before the caller's deadline, so that no abandoned statement keeps running.
    statement_timeout: deadlineMs - 250,
    // Limits how long a process paused within a transaction holds its locks.
    idle_in_transaction_session_timeout: abandonedAfterMs,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    types: { getTypeParser: (oid: number) => parserOf(oid) } as never,
  })
  // The pool replaces broken connections, and their users get the error from the query. Without these listeners, the
  // error of a checked-out connection would end the process.
  pool.on('connect', (client) => client.on('error', () => {}))
  pool.on('error', () => {})
  pool.on('release', (_fault, client) => void unused.add(client))
  for (const event of ['acquire', 'remove'] as const) pool.on(event, (client) => void unused.delete(client))
  unusedOf.set(pool, unused)
  return pool
}

/** Runs `work` with a connection from the pool. A connection that broke or may still be busy is not reused. */
async function lend<Result>(pool: Pool, work: (client: PoolClient) => Promise<Result>): Promise<Result> {
  const client = await connectTo(pool).catch((fault) => {
    throw toDatabaseError(fault)
  })
  try {
    const result = await answeredInTime(pool, work(client))
    client.release()
    return result
  } catch (fault) {
    client.release(breaksConnection(fault))
    throw toDatabaseError(fault)
  }
}

/** Rejects after the deadline; the connection must not be used after that. */
function answeredInTime<Result>(pool: Pool, answer: Promise<Result>): Promise<Result> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      dropUnused(pool)
      reject(new DatabaseError('The database does not answer.'))
    }, deadlineMs)
    answer.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

async function runQuery<R>(client: PoolClient, query: CompiledQuery): Promise<QueryResult<R>> {
  const { rows, rowCount } = await client.query(query.sql, [...query.parameters])
  return { rows, numAffectedRows: BigInt(rowCount ?? 0) }
}

/** Sends reads to one pool, and transactions and single writes to another, so that readers never delay a kill. */
class PostgresConnection implements DatabaseConnection {
  readonly #pools: { reads: Pool; writes: Pool }
  #transaction: PoolClient | undefined
  #broken = false

  constructor(pools: { reads: Pool; writes: Pool }) {
    this.#pools = pools
  }

  async begin(): Promise<void> {
    this.#transaction = await connectTo(this.#pools.writes).catch((fault) => {
      throw toDatabaseError(fault)
    })
    await this.executeQuery(CompiledQuery.raw('begin'))
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const client = this.#transaction
    if (!client) {
      const reads = query.query.kind === 'SelectQueryNode'
      return lend(reads ? this.#pools.reads : this.#pools.writes, (lent) => runQuery<R>(lent, query))
    }
    try {
      return await answeredInTime(this.#pools.writes, runQuery<R>(client, query))
    } catch (fault) {
      this.#broken ||= breaksConnection(fault)
      throw toDatabaseError(fault)
    }
  }

  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    yield await Promise.reject(new Error('Read in pages instead.'))
  }

  /** A broken connection is closed on release, which ends its transaction as well. */
  async rollback(): Promise<void> {
    if (!this.#broken) await this.executeQuery(CompiledQuery.raw('rollback'))
  }

  release(): void {
    this.#transaction?.release(this.#broken)
    this.#transaction = undefined
  }
}

class PostgresDriver implements Driver {
  readonly #pools: { reads: Pool; writes: Pool }

  constructor(pools: { reads: Pool; writes: Pool }) {
    this.#pools = pools
  }

  async init() {}

  async acquireConnection() {
    return new PostgresConnection(this.#pools)
  }

  async beginTransaction(connection: PostgresConnection) {
    await connection.begin()
  }

  async commitTransaction(connection: PostgresConnection) {
    await connection.executeQuery(CompiledQuery.raw('commit'))
  }

  async rollbackTransaction(connection: PostgresConnection) {
    await connection.rollback()
  }

  async releaseConnection(connection: PostgresConnection) {
    connection.release()
  }

  async destroy() {}
}

type Pools = { reads: Pool; writes: Pool }
/** Pools that are currently ending abandoned transactions. */
const endingOn = new WeakSet<Pool>()
/** Ends abandoned transactions if the result takes so long that a paused process probably holds a lock on its rows. */
async function endingAbandoned<Result>({ reads }: Pools, answer: Promise<Result>): Promise<Result> {
  const end = () => {
    // Otherwise every waiting caller would send one more query to an unresponsive server.
    if (endingOn.has(reads)) return
    endingOn.add(reads)
    lend(reads, endAbandoned)
      .catch(() => {})
      .finally(() => endingOn.delete(reads))
  }
  const timer = setTimeout(end, abandonedAfterMs)
  return answer.finally(() => clearTimeout(timer))
}

const isBusy = ({ idleCount, totalCount, waitingCount }: Pool) => idleCount + writers - totalCount <= waitingCount

/** Retries after deadlocks and lost prepared statements, which roll back the whole transaction. */
async function runBatch(pools: Pools, pool: Pool, statements: readonly Statement[], attempt = 1): Promise<Row[][]> {
  const run = (client: PoolClient) => endingAbandoned(pools, client.query(new PostgresBatch(statements)).done)
  try {
    return await lend(pool, run)
  } catch (fault) {
    if (attempt < maxAttempts && isWorthRepeating(fault)) return runBatch(pools, pool, statements, attempt + 1)
    throw fault
  }
}

async function serverTime(client: PoolClient): Promise<number> {
  const { rows } = await client.query(`select extract(epoch from clock_timestamp()) * 1000 as now`)
  return rows[0].now
}

/** Rejects if the server could lose acknowledged events or lacks a feature that the service needs. */
async function assertServer(pool: Pool): Promise<void> {
  const [row] = await lend(pool, async (client) => {
    const { rows } = await client.query(
      `select current_setting('server_version_num')::integer as version, current_setting('server_version') as name,
        current_setting('synchronous_commit') as sync, pg_is_in_recovery() as standby`,
    )
    return rows
  })
  const { version, name, sync, standby } = row
  if (version < oldestVersion) throw new DatabaseError(`PostgreSQL ${name} is too old; 15 or newer is needed.`)
  if (standby) throw new DatabaseError('This PostgreSQL server is a standby: give the address of the primary.')
  // A 201 means "on disk": anything less would lose acknowledged events when the power fails.
  if (sync === 'off') {
    throw new DatabaseError('PostgreSQL runs with synchronous_commit = off: set it to on for the database of Wardline.')
  }
}

const adapt = (pools: { reads: Pool; writes: Pool }) =>
  new Kysely<Schema>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new PostgresDriver(pools),
      createIntrospector: (kysely) => new PostgresIntrospector(kysely),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  })

/**
 * Opens a PostgreSQL database, version 15 or newer, on one or several servers. Rejects with DatabaseError if none is
 * reachable or it may lose committed data. Reconnects automatically when a server comes back, or another is promoted, and
 * with the user and password of `currentUrl` once those in use are refused.
 */
export async function openPostgres(url: string, currentUrl: () => string = () => url): Promise<Database> {
  const unused = new Set<PoolClient>()
  const servers = new PostgresServers(url, currentUrl)
  const pools = {
    reads: openPool(servers, 'reads', readers, unused),
    writes: openPool(servers, 'writes', writers, unused),
  }
  const controlPool = openPool(servers, 'control', controllers, unused)
  const scanPool = openPool(servers, 'scans', scanners, unused)
  const scanLane = new ScanLane(scanners)
  const changes = openChanges(servers)
  const close = async () =>
    void (await Promise.all([pools.reads, pools.writes, controlPool, scanPool, changes].map((pool) => pool.end())))
  try {
    await assertServer(pools.writes)
  } catch (fault) {
    await close()
    throw new DatabaseError(`The database cannot be used: ${startFault(fault as Error)}`, { cause: fault })
  }
  const db = adapt(pools)
  const scans = adapt({ reads: scanPool, writes: scanPool })
  return {
    db,
    dialect: postgresDialect,
    isShared: true,
    collect: () => {},
    batch: (statements, { isControl = false } = {}) =>
      runBatch(pools, isControl && isBusy(pools.writes) ? controlPool : pools.writes, statements),
    scan: (caller, read) => scanLane.run(caller, () => read(scans)),
    change: (statements) => change(changes, statements),
    serverTime: () => lend(pools.reads, serverTime),
    timeline: () => lend(pools.reads, timelineOf),
    withLateSync: (work) => work(),
    prepareDays: (now) => prepareDays(db, now),
    expired: (cutoff) => expiredDays(db, cutoff),
    usedBytes: () => usedBytes(db),
    noteDeleted: (from, to) => noteDeleted(db, (statement) => change(changes, [statement]), from, to),
    backup: () => Promise.reject(new DatabaseError('Back up PostgreSQL with its own tools, such as pg_dump.')),
    async close() {
      await Promise.all([db.destroy(), scans.destroy()])
      await close()
    },
  }
}
