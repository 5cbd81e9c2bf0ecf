import { type ChainEntry, chainTextAround } from '@wardline/contract'
import { sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import { isOfTeam, type Team } from '../../db/teams.ts'

type Row = Schema['audit_log']

/** Appends an entry. The database itself inserts seq and the previous hash, and computes the hash. */
export function appendStatements({ db, dialect }: Database, entry: Omit<ChainEntry, 'seq'>): Statement[] {
  const text = (value: string | null) => sql<string>`cast(${value} as text)`
  const [start, middle, end] = chainTextAround(entry).map(text)
  const place = sql<string>`cast(seq + 1 as text)`
  const hash = dialect.sha256Hex(sql`${start} || hash || ${middle} || ${place} || ${end}`)
  return [
    dialect.lockFound(db.selectFrom('audit_head').select('id').where('id', '=', 1).compile()),
    sql`insert into audit_log
        (seq, at, actor, scope, ip, action, target, before, after, reason, request_id, prev_hash, hash)
      select seq + 1, cast(${entry.at} as bigint), ${text(entry.actor)}, ${text(entry.scope)}, ${text(entry.ip)},
        ${text(entry.action)}, ${text(entry.target)}, ${text(JSON.stringify(entry.before))},
        ${text(JSON.stringify(entry.after))}, ${text(entry.reason)}, ${text(entry.request_id)}, hash, ${hash}
      from audit_head where id = 1`.compile(db),
    sql`update audit_head set seq = seq + 1,
      hash = (select log.hash from audit_log as log where log.seq = audit_head.seq + 1) where id = 1`.compile(db),
  ]
}

type SharedParts = Pick<ChainEntry, 'at' | 'actor' | 'scope' | 'ip' | 'action' | 'reason' | 'request_id'>

const entryColumns = {
  start: 'text',
  middle: 'text',
  tail: 'text',
  target: 'text',
  old_state: 'text',
  new_state: 'text',
} as const

/** Appends many entries of one action in the given order, with a constant number of statements. */
export function appendManyStatements(
  { db, dialect }: Database,
  shared: SharedParts,
  entries: readonly Pick<ChainEntry, 'target' | 'before' | 'after'>[],
): Statement[] {
  const cells = entries.map(({ target, before, after }) => [
    ...chainTextAround({ ...shared, target, before, after }),
    target,
    JSON.stringify(before),
    JSON.stringify(after),
  ])
  const rows = dialect.rowsFromJson(JSON.stringify(cells), entryColumns)
  const text = (value: string | null) => sql<string>`cast(${value} as text)`
  const place = sql<string>`cast(chain.seq + 1 as text)`
  const hash = dialect.sha256Hex(sql`entries.start || chain.hash || entries.middle || ${place} || entries.tail`)
  return [
    dialect.lockFound(db.selectFrom('audit_head').select('id').where('id', '=', 1).compile()),
    // The empty substr() gives both terms of the recursion the same collation, which PostgreSQL requires.
    sql`with recursive entries as materialized (select * from ${rows} as given),
      chain (ordinal, seq, prev_hash, hash) as (
        select cast(-1 as bigint), cast(seq as bigint), hash, hash from audit_head where id = 1
        union all
        select cast(entries.ordinal as bigint), chain.seq + 1, chain.hash, substr(chain.hash, 1, 0) || ${hash}
        from chain join entries on entries.ordinal = chain.ordinal + 1
      )
      insert into audit_log
        (seq, at, actor, scope, ip, action, target, before, after, reason, request_id, prev_hash, hash)
      select chain.seq, cast(${shared.at} as bigint), ${text(shared.actor)}, ${text(shared.scope)}, ${text(shared.ip)},
        ${text(shared.action)}, entries.target, entries.old_state, entries.new_state, ${text(shared.reason)},
        ${text(shared.request_id)}, chain.prev_hash, chain.hash
      from chain join entries on entries.ordinal = chain.ordinal order by chain.seq`.compile(db),
    sql`update audit_head set seq = seq + cast(${entries.length} as bigint),
      hash = (select log.hash from audit_log as log where log.seq = audit_head.seq + cast(${entries.length} as bigint))
      where id = 1`.compile(db),
  ]
}

/** Reads rows in the order of seq. Without `afterSeq`, also those that are outside the chain. */
export function readEntries(db: Db, afterSeq: number | undefined, limit: number): Promise<Row[]> {
  const rows = db.selectFrom('audit_log').selectAll().orderBy('seq').limit(limit)
  return (afterSeq === undefined ? rows : rows.where('seq', '>', afterSeq)).execute()
}

/** All given conditions must match. `after`, `before` and `to` are exclusive, `from` is inclusive. */
export interface EntryFilter {
  after?: number
  before?: number
  /** Epoch milliseconds. */
  from?: number
  to?: number
  actors?: readonly string[]
  /** An action, or a group of actions such as `key.*`. */
  action?: string
  target?: string
  /** Only kills and resumes. */
  isControl?: boolean
  /** Only entries about the team's agents. */
  team?: Team
}

export function findEntries(db: Db, filter: EntryFilter, order: 'oldest' | 'newest', limit: number): Promise<Row[]> {
  const { after, before, from, to, actors, action, target, isControl, team } = filter
  // A row below the first entry is no entry: verification names it, and nothing else shows it as one.
  let query = db
    .selectFrom('audit_log')
    .selectAll()
    .where('seq', '>', after ?? 0)
    .where(isOfTeam('target', team))
  if (before !== undefined) query = query.where('seq', '<', before)
  if (from !== undefined) query = query.where('at', '>=', from)
  if (to !== undefined) query = query.where('at', '<', to)
  if (actors !== undefined) query = query.where('actor', 'in', actors)
  // `/` is the character after `.`. The range selects the group; in LIKE, `_` would match any character.
  if (action?.endsWith('.*')) {
    const group = action.slice(0, -1)
    query = query.where('action', '>=', group).where('action', '<', `${group.slice(0, -1)}/`)
  } else if (action !== undefined) query = query.where('action', '=', action)
  if (target !== undefined) query = query.where('target', '=', target)
  // Must be identical to the condition of the partial index, otherwise the database does not use it.
  if (isControl) query = query.where(sql<boolean>`action in ('instance.suspend', 'instance.resume')`)
  return query
    .orderBy('seq', order === 'oldest' ? 'asc' : 'desc')
    .limit(limit)
    .execute()
}

export async function countControlEntries(
  db: Db,
  { from, to, target }: { from: number; to: number; target: string },
): Promise<number> {
  const found = await db
    .selectFrom('audit_log')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('seq', '>', 0)
    .where('at', '>=', from)
    .where('at', '<', to)
    .where('target', '=', target)
    .where(sql<boolean>`action in ('instance.suspend', 'instance.resume')`)
    .executeTakeFirstOrThrow()
  return found.count
}

/** Returns the last actor of an action for each of these targets. */
export function readLatestActors(db: Db, action: string, targets: readonly string[]) {
  return db
    .selectFrom('audit_log')
    .select(['target', 'actor'])
    .where('seq', 'in', (e) =>
      e
        .selectFrom('audit_log')
        .select((one) => one.fn.max('seq').as('seq'))
        .where('seq', '>', 0)
        .where('action', '=', action)
        .where('target', 'in', targets)
        .groupBy('target'),
    )
    .execute()
}

/** Returns the end of the chain; undefined if the row was deleted. */
export function readHead(db: Db): Promise<{ seq: number; hash: string } | undefined> {
  return db.selectFrom('audit_head').select(['seq', 'hash']).where('id', '=', 1).executeTakeFirst()
}

/** Counts all rows of the log and returns the recorded end, in one statement: they are of the same moment. */
export async function readExtent(db: Db): Promise<{ rows: number; last: number }> {
  return db
    .selectFrom('audit_head')
    .select((e) => [
      e.ref('seq').as('last'),
      e
        .selectFrom('audit_log')
        .select((log) => log.fn.countAll<number>().as('rows'))
        .$asScalar()
        .$notNull()
        .as('rows'),
    ])
    .where('id', '=', 1)
    .executeTakeFirstOrThrow()
}
