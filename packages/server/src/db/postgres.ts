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
import { Pool, type PoolClient } from 'pg'
import { DatabaseError } from '../errors.ts'
import type { Database, Row, Statement } from './database.ts'
import { abandonedAfterMs, endAbandoned } from './postgres-abandoned.ts'
import { PostgresBatch, parserOf } from './postgres-batch.ts'
import { change } from './postgres-change.ts'
import { expiredDays, prepareDays } from './postgres-days.ts'
import { postgresDialect } from './postgres-dialect.ts'
import { breaksConnection, isWorthRepeating, startFault, toDatabaseError } from './postgres-errors.ts'
import { noteDeleted, usedBytes } from './postgres-size.ts'
import { ScanLane } from './scan-lane.ts'
import type { Schema } from './schema.ts'

/** Partitioned tables and the statements used here are sound from this version on. */
const oldestVersion = 150_000

/** Connections of one process: eleven in all, so that a server with the usual hundred takes several processes. */
const writers = 4
/** For control when all writers are busy. */
const controllers = 1
const readers = 4
const scanners = 2
/** A caller waits this long for a connection or an answer, then learns that the database does not answer. */
const deadlineMs = 1_750
const maxAttempts = 3

/** The idle connections of a database, by pool. */
const unusedOf = new WeakMap<Pool, Set<PoolClient>>()

/**
 * A connection that falls silent is hardly alone: a firewall forgot them all, or the server is another one now. Each of
 * the others would cost one more caller the whole deadline.
 */
function dropUnused(pool: Pool): void {
  for (const { connection } of unusedOf.get(pool) ?? []) connection.stream.destroy()
}

function openPool(url: string, name: string, max: number, unused: Set<PoolClient>): Pool {
  const pool = new Pool({
    connectionString: url,
    application_name: `wardline ${name}`,
    max,
    connectionTimeoutMillis: deadlineMs,
    // The server cancels shortly before the caller stops waiting, so no abandoned statement keeps running.
    statement_timeout: deadlineMs - 250,
    // A process that is paused within a transaction holds its locks no longer than this.
    idle_in_transaction_session_timeout: abandonedAfterMs,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    types: { getTypeParser: (oid: number) => parserOf(oid) } as never,
  })
  // A broken connection is replaced; its current user gets the error from its query. Without this listener, the error
  // of a checked-out connection would end the process.
  pool.on('connect', (client) => client.on('error', () => {}))
  pool.on('error', () => {})
  pool.on('release', (_fault, client) => void unused.add(client))
  for (const event of ['acquire', 'remove'] as const) pool.on(event, (client) => void unused.delete(client))
  unusedOf.set(pool, unused)
  return pool
}

/** Lends a connection for one piece of work; one that broke, or may still be busy, is not used again. */
async function lend<Result>(pool: Pool, work: (client: PoolClient) => Promise<Result>): Promise<Result> {
  const client = await pool.connect().catch((fault) => {
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

/** Rejects when the answer takes too long; the connection must not be used after that. */
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

/** Reads go to one pool, transactions and single writes to the other: a crowd of readers never keeps a kill waiting. */
class PostgresConnection implements DatabaseConnection {
  readonly #pools: { reads: Pool; writes: Pool }
  #transaction: PoolClient | undefined
  #broken = false

  constructor(pools: { reads: Pool; writes: Pool }) {
    this.#pools = pools
  }

  async begin(): Promise<void> {
    this.#transaction = await this.#pools.writes.connect().catch((fault) => {
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

  /** Closing a broken connection ends its transaction as well. */
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
/** Pools over which abandoned transactions are being ended just now. */
const endingOn = new WeakSet<Pool>()
/** What waits this long waits for a lock; the transaction that holds it may wait for a process that is paused. */
async function endingAbandoned<Result>({ reads }: Pools, answer: Promise<Result>): Promise<Result> {
  const end = () => {
    // A server that is silent would otherwise get one more question from each who waits.
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

/** Deadlocks and lost prepared statements undo the whole transaction and are no fault of it: it is run again. */
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

/** Rejects when an acknowledged event could be lost, or the server cannot do what the service needs. */
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
 * Opens a PostgreSQL database, version 15 or newer. Rejects with DatabaseError when it cannot be reached or does not
 * persist what it confirms. Reconnects automatically when the server comes back.
 */
export async function openPostgres(url: string): Promise<Database> {
  const unused = new Set<PoolClient>()
  const pools = {
    reads: openPool(url, 'reads', readers, unused),
    writes: openPool(url, 'writes', writers, unused),
  }
  const controlPool = openPool(url, 'control', controllers, unused)
  const scanPool = openPool(url, 'scans', scanners, unused)
  const scanLane = new ScanLane(scanners)
  const close = async () =>
    void (await Promise.all([pools.reads, pools.writes, controlPool, scanPool].map((pool) => pool.end())))
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
    change: (statements) => change(url, statements),
    serverTime: () => lend(pools.reads, serverTime),
    prepareDays: (now) => prepareDays(db, now),
    expired: (cutoff) => expiredDays(db, cutoff),
    usedBytes: () => usedBytes(db),
    noteDeleted: (from, to) => noteDeleted(db, (statement) => change(url, [statement]), from, to),
    backup: () => Promise.reject(new DatabaseError('Back up PostgreSQL with its own tools, such as pg_dump.')),
    async close() {
      await Promise.all([db.destroy(), scans.destroy()])
      await close()
    },
  }
}
