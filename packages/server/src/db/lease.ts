import { type Expression, type RawBuilder, sql } from 'kysely'
import type { Clock } from '../clock.ts'
import { DatabaseError } from '../errors.ts'
import { type Database, type Db, type RowsOf, rowsOf, type Statement } from './database.ts'

// A lease is two columns of a row: until `leased_until` only the process in the column of the holder works on the row.
// After a crash another process continues once the lease has ended.

interface Claim {
  holder: string
  now: number
}

/** A claim, and how long a crash blocks what was claimed. */
export interface TimedClaim extends Claim {
  leaseMs: number
}

/** A table whose rows are claimed one by one. Conditions are literals where an index is partial. */
export interface LeasedQueue {
  table: 'alert_messages' | 'enforcement_calls'
  /** Whether a row still has to be sent. */
  isOpen: RawBuilder<boolean>
  /** Whether a row may have a lease. */
  mayBeLeased: RawBuilder<boolean>
}

/** Condition: no process works on the row, not even this one. */
export const isFree = (now: number) => sql<boolean>`coalesce(leased_until, 0) <= ${now}`

/** Columns of a row that no process works on. */
export const unclaimed = { leased_until: 0, lease_owner: null } as const

/**
 * Claims the rows of these ids (a query); resolves with them in the order of ids. What the query asks is checked again,
 * because another process may have claimed a row while this statement waited for its lock.
 */
export async function claimRows<Claimed extends { id: string }>(
  db: Db,
  { table, isOpen }: LeasedQueue,
  ids: Expression<unknown>,
  { holder, now, leaseMs }: TimedClaim,
): Promise<Claimed[]> {
  const { rows } = await sql<Claimed>`update ${sql.table(table)}
    set leased_until = ${now + leaseMs}, lease_owner = ${holder}
    where id in ${ids} and ${isOpen} and ${isFree(now)} returning *`.execute(db)
  return rows.sort((a, b) => (a.id < b.id ? -1 : 1))
}

/** Releases the rows claimed by a process, or only these of them; without a holder all, if no process can be running. */
export async function releaseRows(db: Db, queue: LeasedQueue, holder?: string, ids?: readonly string[]): Promise<void> {
  const ofHolder = holder === undefined ? sql`lease_owner is not null` : sql`lease_owner = ${holder}`
  const named = ids ? sql`and id in (${sql.join(ids)})` : sql``
  await sql`update ${sql.table(queue.table)} set leased_until = 0, lease_owner = null
    where ${queue.mayBeLeased} and ${ofHolder} ${named}`.execute(db)
}

/** A row that one process at a time works on. */
interface LeasedRow {
  table: 'containments' | 'rule_runner' | 'chain_senders'
  key: Readonly<Record<string, string | number>>
  leaseMs: number
}

/** Columns of the process that holds the lease. */
const holders = { containments: 'worker', rule_runner: 'holder', chain_senders: 'holder' } as const

/**
 * Condition: no other process works on the row. A SQLite file has one process, so a lease that ends later than it could if
 * it was claimed now is that of an earlier process, from before the clock was set back.
 */
export function isClaimable(
  { isShared }: Pick<Database, 'isShared'>,
  { table, leaseMs }: Pick<LeasedRow, 'table' | 'leaseMs'>,
  { holder, now }: Claim,
): RawBuilder<boolean> {
  const isAhead = isShared ? sql`` : sql`or leased_until > ${now + leaseMs}`
  return sql`(leased_until <= ${now} or ${sql.ref(holders[table])} = ${holder} ${isAhead})`
}

const pairs = (columns: Record<string, unknown>, separator = sql` and `) =>
  sql.join(
    Object.entries(columns).map(([name, value]) => sql`${sql.ref(name)} = ${value}`),
    separator,
  )

/** Claims the row, unless another process works on it or the condition does not hold: undefined then. */
export async function claimRow<Claimed>(
  database: Pick<Database, 'db' | 'isShared'>,
  row: LeasedRow,
  claim: Claim,
  condition: RawBuilder<unknown> = sql`true`,
  counting = sql``,
): Promise<Claimed | undefined> {
  const { table, key, leaseMs } = row
  const { rows } = await sql<Claimed>`update ${sql.table(table)}
    set leased_until = ${claim.now + leaseMs}, ${sql.ref(holders[table])} = ${claim.holder} ${counting}
    where ${pairs(key)} and ${isClaimable(database, row, claim)} and ${condition} returning *`.execute(database.db)
  return rows[0]
}

/** The lease was lost, or a write was stale: the state in memory may be outdated. */
export class LeaseLost extends Error {}

/** Work that takes longer renews its lease this often. */
const renewEveryMs = 1_000

interface LeaseDeps {
  database: Database
  clock: Clock
}

/**
 * Claims a row that counts its claims in `epoch`. Resolves with the lease and the row; undefined if another process holds
 * it, or if the condition does not hold.
 */
export async function claimLease<Claimed>(
  { database, clock }: LeaseDeps,
  row: LeasedRow,
  holder: string,
  condition?: RawBuilder<unknown>,
): Promise<{ lease: Lease; row: Claimed } | undefined> {
  const claimedAt = clock.monotonic()
  const claim = { holder, now: clock.now() }
  const counting = sql`, epoch = epoch + 1`
  const claimed = await claimRow<Claimed & { epoch: number }>(database, row, claim, condition, counting)
  return claimed && { lease: new Lease({ database, clock }, row, claimed.epoch, claimedAt), row: claimed }
}

/** A lease of this process. */
export class Lease {
  readonly epoch: number
  readonly #deps: LeaseDeps
  readonly #row: LeasedRow
  #renewedAt: number

  constructor(deps: LeaseDeps, row: LeasedRow, epoch: number, claimedAt: number) {
    this.#deps = deps
    this.#row = row
    this.epoch = epoch
    this.#renewedAt = claimedAt
  }

  /**
   * Runs statements in one transaction that holds the lease: what a process writes that was paused for longer than its
   * lease fails, once another one has claimed it. `asRead`: columns of the row that must be so as well. Throws LeaseLost if
   * anything was stale.
   */
  async batch(statements: readonly Statement[], asRead: Record<string, unknown> = {}): Promise<RowsOf> {
    const { db, dialect, batch } = this.#deps.database
    const own = sql`select epoch from ${sql.table(this.#row.table)} where ${pairs({ ...this.#own, ...asRead })}`
    const all = [dialect.lockFound(own.compile(db)), ...statements]
    try {
      return rowsOf(all, await batch(all))
    } catch (fault) {
      throw fault instanceof DatabaseError && fault.stale ? new LeaseLost() : fault
    }
  }

  /** Changes columns of the row, and renews the lease. */
  change(columns: Record<string, unknown>): Statement {
    const leased_until = this.#deps.clock.now() + this.#row.leaseMs
    return this.#update({ ...columns, leased_until }).compile(this.#deps.database.db)
  }

  /** False if another process claimed the lease. */
  async renew(): Promise<boolean> {
    this.#renewedAt = this.#deps.clock.monotonic()
    const { numAffectedRows } = await this.#deps.database.db.executeQuery(this.change({}))
    return numAffectedRows === 1n
  }

  /** Call between the turns of long work. Throws LeaseLost if another process claimed the lease. */
  async keep(): Promise<void> {
    if (this.#deps.clock.monotonic() - this.#renewedAt >= renewEveryMs && !(await this.renew())) throw new LeaseLost()
  }

  /** Lets another process continue at once. */
  async release(columns: Record<string, unknown> = {}): Promise<void> {
    const released = { ...columns, leased_until: 0, [holders[this.#row.table]]: null }
    await this.#update(released).execute(this.#deps.database.db)
  }

  get #own() {
    return { ...this.#row.key, epoch: this.epoch }
  }

  #update(columns: Record<string, unknown>) {
    return sql`update ${sql.table(this.#row.table)} set ${pairs(columns, sql`, `)} where ${pairs(this.#own)}`
  }
}
