import { ruleLimits } from '@wardline/contract'
import { sql } from 'kysely'
import { minuteMs, startOf } from '../../clock.ts'
import type { Database, Db, Statement } from '../../db/database.ts'
import type { Lease } from '../../db/lease.ts'
import type { Schema } from '../../db/schema.ts'
import type { Fired } from './language/cooldowns.ts'
import type { SpentFirings } from './language/firing-budget.ts'
import { readListsOf } from './list-queries.ts'
import type { ValueChanges, ValueRow } from './value-history.ts'

export type FiringRow = Schema['rule_firings']
export type ResponseRow = Schema['rule_responses']
export type HourRow = Schema['rule_hours']
export type RuleStart = Schema['rule_starts']
/** A response with its firing. */
export interface PendingResponse extends ResponseRow {
  title: string
  version: number
  event_id: string
  instance_id: string | null
}

/** Another process takes over this long after the last renewal, at most a second later. */
export const runnerLease = { table: 'rule_runner', key: { id: 1 }, leaseMs: 3_500 } as const

/** The right to run the rules, and the stored position in the log. */
export interface Holding {
  lease: Lease
  seq: number
}

/** Makes a write of the runner. Throws LeaseLost if another process runs the rules. */
export const batchOf = ({ lease, seq }: Holding, statements: readonly Statement[]) => lease.batch(statements, { seq })

export async function readStoredSeq(db: Db): Promise<number> {
  const { seq } = await db.selectFrom('rule_runner').select('seq').executeTakeFirstOrThrow()
  return Number(seq)
}

const markColumns = ['version', 'mode', 'changed_at', 'list_changes'] as const
type RuleMark = Pick<Schema['rules'], (typeof markColumns)[number]>

/** Columns that show whether a rule or a list of it changed. */
export function readRuleMarks(db: Db) {
  return db
    .selectFrom('rules')
    .select(['id', ...markColumns])
    .execute()
}

export const isSameMark = (one: RuleMark | undefined, other: RuleMark): boolean =>
  one !== undefined && markColumns.every((name) => one[name] === other[name])

/** Reads rules, and then the lists that they name, so that these are at least as new as the marks of the rules say. */
export async function readRulesOf(db: Db, ids: readonly string[]) {
  const rows = await db.selectFrom('rules').selectAll().where('id', 'in', ids).execute()
  const texts = rows.map(({ document, text }) => document ?? text)
  return { rows, lists: await readListsOf(db, texts) }
}

export function readStarts(db: Db) {
  return db.selectFrom('rule_starts').selectAll().execute()
}

/** Starts a rule, and deletes the history of another detection. No statements if it is `stored` like this. */
export function startStatements(db: Db, start: RuleStart, stored: RuleStart | undefined): Statement[] {
  const { rule_id, ...columns } = start
  if (stored?.basis === start.basis && stored.mode === start.mode) return []
  const mark = db
    .insertInto('rule_starts')
    .values(start)
    .onConflict((conflict) => conflict.column('rule_id').doUpdateSet(columns))
    .compile()
  if (stored?.basis === start.basis) return [mark]
  return [mark, db.deleteFrom('rule_values').where('rule_id', '=', rule_id).compile()]
}

/** Rows of a page of firings: a millisecond. */
const firingRows = 2_000

/** Reads the firings of a rule since a time page by page, oldest first, on the connections of scans. */
export async function* readFiredSince(
  database: Pick<Database, 'scan'>,
  caller: string,
  id: string,
  since: { seq: number; time: number },
): AsyncGenerator<Fired[], void> {
  for (let last = { time: since.time, seq: 0 }; ; ) {
    const rows = await database.scan(caller, (db) =>
      db
        .selectFrom('rule_firings')
        .select(['group_key', 'instance_id', 'fired_at', 'seq'])
        .where('rule_id', '=', id)
        .where('fired_at', '>=', last.time)
        .where(sql<boolean>`(fired_at, seq) > (${last.time}, ${last.seq})`)
        .where('seq', '>', since.seq)
        .orderBy('fired_at')
        .orderBy('seq')
        .limit(firingRows)
        .execute(),
    )
    yield rows.map(({ group_key, instance_id, fired_at }) => ({
      group: group_key,
      instance: instance_id ?? '',
      time: Number(fired_at),
    }))
    if (rows.length < firingRows) return
    const { fired_at, seq } = rows.at(-1)!
    last = { time: Number(fired_at), seq: Number(seq) }
  }
}

/**
 * What this version of a rule in this mode fired since the minute of the last firing, by the reporter of the event, those
 * first whose last firing is the oldest.
 */
export async function readSpentFirings(
  db: Db,
  { id, version, mode }: Pick<Schema['rules'], 'id' | 'version' | 'mode'>,
  afterSeq: number,
): Promise<{ lastFiredAt: number; firings: SpentFirings[] } | undefined> {
  const last = await db
    .selectFrom('rule_firings')
    .select(['fired_at', 'seq'])
    .where('rule_id', '=', id)
    .orderBy('fired_at', 'desc')
    .limit(1)
    .executeTakeFirst()
  if (last === undefined || last.seq <= afterSeq) return undefined
  const rows = await db
    .selectFrom('rule_firings')
    .select((e) => ['instance_id', 'by_service', e.fn.countAll<number>().as('firings')])
    .where('rule_id', '=', id)
    .where('version', '=', version)
    .where('mode', '=', mode)
    .where('fired_at', '>=', startOf(last.fired_at, minuteMs))
    .where('seq', '>', afterSeq)
    .groupBy(['instance_id', 'by_service'])
    .orderBy((e) => e.fn.max('seq'), 'desc')
    .limit(ruleLimits.firingInstances)
    .execute()
  const firings = rows.map((row) => ({
    instance_id: row.instance_id,
    by_service: row.by_service === 1,
    firings: Number(row.firings),
  }))
  return { lastFiredAt: last.fired_at, firings: firings.reverse() }
}

/** Counts the firings of a group since a time. */
export async function countGroupFirings(db: Db, id: string, group: string, since: number): Promise<number> {
  const { count } = await db
    .selectFrom('rule_firings')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('rule_id', '=', id)
    .where('fired_at', '>=', since)
    .where('group_key', '=', group)
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Rows of a page of values: a few milliseconds. */
const valueRows = 2_000

/** Reads the stored history for new_value page by page, on the connections of scans; the row of a group comes first. */
export async function* readValues(
  database: Pick<Database, 'scan'>,
  caller: string,
  { id, basis }: { id: string; basis: string },
): AsyncGenerator<ValueRow[], void> {
  for (let last: ValueRow | undefined; ; ) {
    const rows = await database.scan(caller, (db) => {
      const query = db
        .selectFrom('rule_values')
        .select(['group_key', 'value', 'seen_at', 'new_seq', 'reporter'])
        .where('rule_id', '=', id)
        .where('basis', '=', basis)
        .orderBy('group_key')
        .orderBy('value')
        .limit(valueRows)
      return last === undefined
        ? query.execute()
        : query.where(sql<boolean>`(group_key, value) > (${last.group_key}, ${last.value})`).execute()
    })
    yield rows
    if (rows.length < valueRows) return
    last = rows.at(-1)
  }
}

const firingColumns = {
  rule_id: 'text',
  seq: 'bigint',
  version: 'bigint',
  mode: 'text',
  group_key: 'text',
  instance_id: 'text',
  by_service: 'bigint',
  event_id: 'text',
  fired_at: 'bigint',
  count: 'bigint',
  events: 'text',
  matched_id: 'text',
  created_at: 'bigint',
} as const satisfies Record<keyof FiringRow, string>

const responseColumns = {
  rule_id: 'text',
  seq: 'bigint',
  position: 'bigint',
  action: 'text',
  target: 'text',
  duration_ms: 'bigint',
  state: 'text',
  detail: 'text',
  created_at: 'bigint',
} as const satisfies Record<keyof ResponseRow, string>

const valueColumns = {
  group_key: 'text',
  value: 'text',
  seen_at: 'bigint',
  new_seq: 'bigint',
  reporter: 'text',
} as const satisfies Record<keyof ValueRow, string>

/** Compiled for any number of rows. */
export function runnerStatements({ db, dialect }: Database) {
  /** Inserts rows; what is there already stays as it is. */
  function insert<Columns extends Record<string, 'text' | 'bigint'>>(
    table: string,
    columns: Columns,
    rows: readonly Record<keyof Columns, unknown>[],
    conflict: string,
  ): Statement {
    const names = Object.keys(columns)
    const cells = rows.map((row) => names.map((name) => row[name]))
    const list = sql.raw(names.join(', '))
    return sql`insert into ${sql.raw(table)} (${list}) select ${list}
      from ${dialect.rowsFromJson(JSON.stringify(cells), columns)} as batch where true ${sql.raw(conflict)}`.compile(db)
  }

  return {
    firings: (rows: readonly FiringRow[]) =>
      insert('rule_firings', firingColumns, rows, 'on conflict (rule_id, seq) do nothing'),
    responses: (rows: readonly ResponseRow[]) =>
      insert('rule_responses', responseColumns, rows, 'on conflict (rule_id, seq, position) do nothing'),
    hours: (rows: readonly HourRow[]) =>
      insert(
        'rule_hours',
        { rule_id: 'text', hour: 'bigint', count: 'bigint', suppressed: 'bigint' },
        rows,
        `on conflict (rule_id, hour) do update set count = rule_hours.count + excluded.count,
          suppressed = rule_hours.suppressed + excluded.suppressed`,
      ),
    values(ruleId: string, basis: string, { changed, forgotten }: ValueChanges): Statement[] {
      const gone = forgotten.length === 0 ? [] : [forgottenStatement(ruleId, basis, forgotten)]
      if (changed.length === 0) return gone
      const rows = changed.map((row) => ({ rule_id: ruleId, basis, ...row }))
      const columns = { rule_id: 'text', basis: 'text', ...valueColumns } as const
      const conflict = `on conflict (rule_id, basis, group_key, value) do update
        set seen_at = excluded.seen_at, new_seq = excluded.new_seq, reporter = excluded.reporter`
      return [...gone, insert('rule_values', columns, rows, conflict)]
    },
  }

  function forgottenStatement(ruleId: string, basis: string, values: ValueChanges['forgotten']): Statement {
    const cells = values.map(({ group_key, value }) => [group_key, value])
    const rows = dialect.rowsFromJson(JSON.stringify(cells), { group_key: 'text', value: 'text' })
    return sql`delete from rule_values where rule_id = ${ruleId} and basis = ${basis} and (group_key, value) in
      (select group_key, value from ${rows} as batch)`.compile(db)
  }
}
