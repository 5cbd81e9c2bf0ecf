import { Client, Pool, type PoolClient, type PoolConfig } from 'pg'
import { serverUrls } from '../config/server-urls.ts'
import { DatabaseError } from '../errors.ts'
import { breaksConnection, refusesLogin } from './postgres-errors.ts'

/** Maximum wait for a server that is looked at, so that one that does not answer delays the use of another by a second. */
const lookMs = 1_000

/**
 * The name of the current log file begins with the timeline, which grows with each promotion; null on a standby
 * (https://www.postgresql.org/docs/current/continuous-archiving.html, section 25.3.6).
 */
const logFile = 'select case when pg_is_in_recovery() then null else pg_walfile_name(pg_current_wal_lsn()) end as name'

const replaced = 'it was replaced by another primary'

/** Resolves with the timeline of a server that accepts writes. Rejects with DatabaseError on a standby. */
export async function timelineOf(client: Pick<Client, 'query'>): Promise<number> {
  const { rows } = await client.query(logFile)
  if (rows[0].name === null) throw new DatabaseError('it is a standby')
  return Number.parseInt(rows[0].name.slice(0, 8), 16)
}

async function look(url: string): Promise<number> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: lookMs, query_timeout: lookMs })
  // The error of a connection that breaks rejects the query; without a listener it would end the process.
  client.on('error', () => {})
  try {
    await client.connect()
    return await timelineOf(client)
  } finally {
    // Not `end`, which waits for a server that may not answer.
    client.connection.stream.destroy()
  }
}

/** Its server may not answer, and `release` alone would wait for it. */
function discard(client: PoolClient): void {
  client.connection.stream.destroy()
  client.release(true)
}

const serversOf = new WeakMap<Pool, PostgresServers>()

/**
 * Lends a connection of a pool that `PostgresServers` opened. The caller releases it. Rejects if there is none, with
 * DatabaseError if several hosts are given and none of them accepts writes.
 */
export const connectTo = (pool: Pool): Promise<PoolClient> => serversOf.get(pool)!.connect(pool)

/**
 * The servers of a database URL. With several hosts, the newest primary among them is used: each connection is checked
 * before its first use, and one that fails leads to a look at all servers. A primary that was replaced and comes back has
 * a lower timeline, and a process that saw its successor never writes to it again.
 */
export class PostgresServers {
  #url: string
  readonly #currentUrl: () => string
  #urls: readonly string[]
  readonly #pools: Pool[] = []
  /** The highest timeline seen; 0 until the servers were looked at. */
  #timeline = 0
  readonly #timelines = new WeakMap<PoolClient, number>()
  #looking: Promise<void> | undefined

  constructor(url: string, currentUrl: () => string) {
    this.#url = url
    this.#currentUrl = currentUrl
    this.#urls = serverUrls(url)
  }

  /** Opens a pool of connections to the server in use. */
  open(options: PoolConfig): Pool {
    const pool = new Pool({ ...options, connectionString: this.#urls[0] })
    serversOf.set(pool, this)
    this.#pools.push(pool)
    return pool
  }

  connect(pool: Pool): Promise<PoolClient> {
    return this.#connect(pool).catch((fault) => {
      if (!refusesLogin(fault) || !this.#reread()) throw fault
      return this.#connect(pool)
    })
  }

  /** Takes over a changed URL, such as one with another password. Returns whether it changed. */
  #reread(): boolean {
    const url = this.#currentUrl()
    if (url === this.#url) return false
    this.#url = url
    this.#urls = serverUrls(url)
    for (const { options } of this.#pools) options.connectionString = this.#urls[0]
    return true
  }

  async #connect(pool: Pool): Promise<PoolClient> {
    if (this.#urls.length === 1) return pool.connect()
    if (this.#timeline === 0) await this.#look()
    return this.#lend(pool).catch(async (fault) => {
      if (!breaksConnection(fault)) throw fault
      await this.#look()
      return this.#lend(pool)
    })
  }

  /**
   * Checks new connections, and closes those to a server that was replaced. Not by the option `verify` of the pool: a caller
   * whose time is over during that check never gets the connection, and nobody releases it.
   */
  async #lend(pool: Pool): Promise<PoolClient> {
    for (;;) {
      const client = await pool.connect()
      try {
        if (!this.#timelines.has(client)) await this.#check(client)
        if (this.#timelines.get(client) === this.#timeline) return client
      } catch (fault) {
        discard(client)
        throw fault
      }
      discard(client)
    }
  }

  /** Rejects if a new connection must not be used. */
  async #check(client: PoolClient): Promise<void> {
    const timer = setTimeout(() => client.connection.stream.destroy(), lookMs)
    const timeline = await timelineOf(client).finally(() => clearTimeout(timer))
    if (timeline < this.#timeline) throw new DatabaseError(replaced)
    this.#timeline = timeline
    this.#timelines.set(client, timeline)
  }

  /** Callers meanwhile share one look: if it was too early for one of them, its next connection leads to another. */
  #look(): Promise<void> {
    this.#looking ??= this.#find().finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  async #find(): Promise<void> {
    const looks = await Promise.allSettled(this.#urls.map(look))
    let newest: { url: string; timeline: number } | undefined
    const faults: string[] = []
    for (const [at, found] of looks.entries()) {
      const url = this.#urls[at]!
      if (found.status === 'rejected') {
        faults.push(`${new URL(url).host}: ${found.reason.message || found.reason.code}`)
      } else if (found.value < this.#timeline) {
        faults.push(`${new URL(url).host}: ${replaced}`)
      } else if (!newest || found.value > newest.timeline) newest = { url, timeline: found.value }
    }
    const refused = looks.some((found) => found.status === 'rejected' && refusesLogin(found.reason))
    if (!newest && refused && this.#reread()) return this.#find()
    if (!newest) throw new DatabaseError(`No server of DATABASE_URL accepts writes (${faults.join('; ')}).`)
    this.#timeline = newest.timeline
    for (const { options } of this.#pools) options.connectionString = newest.url
  }
}
