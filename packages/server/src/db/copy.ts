import { existsSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { sql } from 'kysely'
import { dayMs, systemClock } from '../clock.ts'
import { DatabaseError } from '../errors.ts'
import type { Database, Db, Row } from './database.ts'
import { claimFact, isFactKnown } from './facts.ts'
import { migrate } from './migrate.ts'
import { openDatabase, sqliteFile } from './open.ts'
import { pagesOf } from './portions.ts'
import type { Schema } from './schema.ts'

type Table = keyof Schema
type ColumnTypes = Record<string, 'text' | 'bigint' | 'double'>

/**
 * Every table except schema_version, with the key that orders its copy. After an interruption, append-only tables
 * (`grows`) resume at the last copied row; the others are small and are copied again from the start.
 */
const plan: { table: Table; key: string[]; grows: boolean }[] = [
  { table: 'events', key: ['seq'], grows: true },
  { table: 'audit_log', key: ['seq'], grows: true },
  { table: 'event_refs', key: ['kind', 'value', 'seq'], grows: false },
  { table: 'event_minutes', key: ['minute'], grows: false },
  { table: 'event_counts', key: ['unit', 'severity', 'class', 'bucket'], grows: false },
  { table: 'tool_counts', key: ['tool', 'minute'], grows: false },
  { table: 'problem_counts', key: ['by_service', 'severity', 'hour', 'event_type', 'instance_id'], grows: false },
  { table: 'idempotency_keys', key: ['caller', 'kind', 'key'], grows: false },
  { table: 'instances', key: ['id'], grows: false },
  // After the instances, because inserting instances fires triggers that write into these tables.
  { table: 'instance_counts', key: ['owner'], grows: false },
  { table: 'operator_tags', key: ['tag', 'instance_id'], grows: false },
  { table: 'deleted_instances', key: ['id'], grows: false },
  { table: 'instance_hours', key: ['instance_id', 'hour', 'writer'], grows: false },
  { table: 'instance_witnesses', key: ['instance_id', 'witness'], grows: false },
  { table: 'agent_configs', key: ['instance_id', 'source'], grows: false },
  { table: 'agent_notes', key: ['instance_id'], grows: false },
  { table: 'tool_servers', key: ['server_key', 'instance_id', 'source', 'name'], grows: false },
  { table: 'suspensions', key: ['instance_id', 'version'], grows: false },
  { table: 'stream_processes', key: ['id'], grows: false },
  { table: 'control_streams', key: ['process', 'instance_id'], grows: false },
  { table: 'drills', key: ['id'], grows: false },
  { table: 'drill_asks', key: ['drill_id', 'instance_id'], grows: false },
  { table: 'honeypots', key: ['id'], grows: false },
  { table: 'honeypot_fingerprints', key: ['digest', 'honeypot_id'], grows: false },
  { table: 'honeypot_hits', key: ['id'], grows: false },
  { table: 'decoy_ignores', key: ['id'], grows: false },
  { table: 'api_keys', key: ['id'], grows: false },
  { table: 'sessions', key: ['token_hash'], grows: false },
  { table: 'login_codes', key: ['key_id'], grows: false },
  { table: 'people', key: ['id'], grows: false },
  { table: 'mail_choices', key: ['person_id'], grows: false },
  { table: 'role_mappings', key: ['position'], grows: false },
  { table: 'passkeys', key: ['id'], grows: false },
  { table: 'sign_ins', key: ['state_hash'], grows: false },
  { table: 'command_logins', key: ['challenge'], grows: false },
  { table: 'metric_baselines', key: ['instance_id', 'metric'], grows: false },
  { table: 'baselines', key: ['instance_id', 'metric'], grows: false },
  { table: 'baseline_episodes', key: ['id'], grows: false },
  { table: 'report_mismatches', key: ['instance_id', 'missing'], grows: false },
  { table: 'report_habits', key: ['instance_id'], grows: false },
  { table: 'approvals', key: ['id'], grows: false },
  { table: 'approval_attempts', key: ['instance_id', 'attempt'], grows: false },
  { table: 'allowances', key: ['id'], grows: false },
  { table: 'brake', key: ['id'], grows: false },
  { table: 'brake_refusals', key: ['instance_id'], grows: false },
  { table: 'alerts', key: ['seq'], grows: false },
  { table: 'alert_comments', key: ['id'], grows: false },
  { table: 'alert_notices', key: ['person_id', 'alert_seq'], grows: false },
  { table: 'alert_channels', key: ['id'], grows: false },
  { table: 'alert_routes', key: ['id'], grows: false },
  { table: 'silences', key: ['id'], grows: false },
  { table: 'alert_groups', key: ['channel_id', 'name'], grows: false },
  { table: 'alert_messages', key: ['id'], grows: false },
  { table: 'alert_deliveries', key: ['alert_seq', 'channel_id'], grows: false },
  {
    table: 'alert_overflow',
    key: ['minute', 'by_service', 'instance_id', 'event_type', 'severity'],
    grows: false,
  },
  { table: 'containments', key: ['id'], grows: false },
  { table: 'enforcement_calls', key: ['instance_id', 'version', 'point'], grows: false },
  { table: 'containment_parts', key: ['containment_id', 'position'], grows: false },
  { table: 'resume_requests', key: ['target'], grows: false },
  { table: 'signing_keys', key: ['generation'], grows: false },
  { table: 'chain_senders', key: ['chain_id', 'address'], grows: false },
  { table: 'chain_transactions', key: ['id'], grows: false },
  { table: 'chain_attempts', key: ['hash'], grows: false },
  { table: 'chain_identities', key: ['id'], grows: false },
  { table: 'chain_attesters', key: ['attester'], grows: false },
  {
    table: 'chain_other_attestations',
    key: ['chain_id', 'contract', 'subject', 'attester', 'uid'],
    grows: false,
  },
  { table: 'policies', key: ['id'], grows: false },
  { table: 'policy_versions', key: ['policy_id', 'version'], grows: false },
  { table: 'rules', key: ['id'], grows: false },
  { table: 'rule_lists', key: ['name'], grows: false },
  { table: 'rule_versions', key: ['rule_id', 'version'], grows: false },
  { table: 'rule_firings', key: ['rule_id', 'seq'], grows: false },
  { table: 'rule_hours', key: ['rule_id', 'hour'], grows: false },
  { table: 'rule_responses', key: ['rule_id', 'seq', 'position'], grows: false },
  { table: 'rule_suspensions', key: ['instance_id', 'version'], grows: false },
  { table: 'rule_values', key: ['rule_id', 'basis', 'group_key', 'value'], grows: false },
  { table: 'rule_starts', key: ['rule_id'], grows: false },
  { table: 'rule_runner', key: ['id'], grows: false },
  { table: 'views', key: ['id'], grows: false },
  { table: 'attestations', key: ['period', 'tag'], grows: false },
  { table: 'verifications', key: ['id'], grows: false },
  { table: 'job_runs', key: ['name'], grows: false },
  { table: 'counters', key: ['name'], grows: false },
  { table: 'audit_head', key: ['id'], grows: false },
]

/** About ten milliseconds of work, far below the time limits of both engines. */
const pageRows = 1_000

export interface CopyProgress {
  phase: 'copy' | 'compare'
  table: string
  /** Rows processed since the last call. `total` is the estimate for both phases together. */
  rows: number
  total: number
}

const names = (columns: readonly string[]) => sql.join(columns.map((column) => sql.ref(column)))

/** Yields the rows after a key, in key order. */
const pages = (db: Db, table: Table, key: readonly string[], after?: Row): AsyncGenerator<Row[]> =>
  pagesOf(pageRows, async (from: Row | undefined = after) => {
    const beyond = from ? sql`where (${names(key)}) > (${sql.join(key.map((column) => sql`${from[column]}`))})` : sql``
    const query = sql<Row>`select * from ${sql.ref(table)} ${beyond} order by ${names(key)} limit ${pageRows}`
    return (await query.execute(db)).rows
  })

async function readColumns(db: Db, table: Table): Promise<ColumnTypes> {
  const tables = await db.introspection.getTables()
  const columns = tables.find(({ name }) => name === table)!.columns
  const typeOf = (type: string) => (/int/i.test(type) ? 'bigint' : /double|real/i.test(type) ? 'double' : 'text')
  return Object.fromEntries(columns.map(({ name, dataType }) => [name, typeOf(dataType)]))
}

async function readLast(db: Db, table: Table, key: readonly string[]): Promise<Row | undefined> {
  const order = sql.join(key.map((column) => sql`${sql.ref(column)} desc`))
  const { rows } = await sql<Row>`select * from ${sql.ref(table)} order by ${order} limit 1`.execute(db)
  return rows[0]
}

async function insertRows({ db, dialect, batch }: Database, table: Table, columns: ColumnTypes, rows: Row[]) {
  const values = JSON.stringify(rows.map((row) => Object.keys(columns).map((column) => row[column])))
  const source = dialect.rowsFromJson(values, columns)
  const list = names(Object.keys(columns))
  await batch([sql`insert into ${sql.ref(table)} (${list}) select ${list} from ${source} as batch`.compile(db)])
}

/** Deletes, page by page, the initial rows of a new database or the rows of an interrupted copy. */
async function empty(db: Db, table: Table, key: readonly string[]): Promise<void> {
  for await (const rows of pages(db, table, key)) {
    const last = rows.at(-1)!
    await sql`delete from ${sql.ref(table)}
      where (${names(key)}) <= (${sql.join(key.map((column) => sql`${last[column]}`))})`.execute(db)
  }
}

/** Creates partitions for the days of all events, if the engine stores events by day. */
async function prepareAllDays(from: Database, to: Database, now: number): Promise<void> {
  const { oldest } = await from.db
    .selectFrom('event_minutes')
    .select((e) => e.fn.min('minute').as('oldest'))
    .executeTakeFirstOrThrow()
  for (let day = oldest ?? now; day <= now + dayMs; day += dayMs) await to.prepareDays(day)
}

/** Returns a fingerprint of the source's activity, to detect writes during the copy. */
async function readMark({ db }: Database): Promise<string> {
  const counters = await db.selectFrom('counters').selectAll().where('name', '=', 'event_seq').execute()
  const head = await db.selectFrom('audit_head').selectAll().execute()
  const beats = await db
    .selectFrom('instances')
    .select((e) => e.fn.max('last_heartbeat_at').as('last'))
    .execute()
  // A service without requests still runs its periodic jobs.
  const jobs = await db.selectFrom('job_runs').selectAll().orderBy('name').execute()
  return JSON.stringify([counters, head, beats, jobs])
}

/** Rejects unless the target is new or contains an unfinished copy of the same source. */
async function claimTarget(from: Database, to: Database): Promise<void> {
  const source = (await readSecretCheck(from.db)) ?? ''
  const unfinished = await readFact(to.db, 'copying_from')
  if (unfinished === undefined) {
    const keys = await to.db.selectFrom('api_keys').select('id').limit(1).execute()
    if (keys.length > 0 || (await readLast(to.db, 'events', ['seq'])) || (await readSecretCheck(to.db)) !== undefined) {
      throw new DatabaseError('The target is not empty: give an empty database.')
    }
  } else if (unfinished !== source) {
    throw new DatabaseError('The target holds an unfinished copy of another database: give an empty one.')
  }
  await claimFact(to.db, 'copying_from', source)
}

async function readFact(db: Db, name: Schema['facts']['name']): Promise<string | undefined> {
  const fact = await db.selectFrom('facts').select('value').where('name', '=', name).executeTakeFirst()
  return fact?.value
}

const readSecretCheck = (db: Db) => readFact(db, 'secret_check')

/** Rejects when the database is an unfinished copy: starting on it would mix two histories. */
export async function assertComplete(db: Db): Promise<void> {
  if ((await readFact(db, 'copying_from')) === undefined) return
  throw new DatabaseError('The copy into this database was interrupted: run the same "wardline migrate" again.')
}

/** Estimates the events from their sequence range, because counting the rows of a large database takes too long. */
async function estimateRows(db: Db): Promise<number> {
  const { first, last } = await db
    .selectFrom('events')
    .select((e) => [e.fn.min('seq').as('first'), e.fn.max('seq').as('last')])
    .executeTakeFirstOrThrow()
  return last === null ? 0 : last - first + 1
}

async function compare(
  from: Database,
  to: Database,
  { table, key }: (typeof plan)[number],
  onRows: (rows: number) => void,
): Promise<number> {
  const copies = pages(to.db, table, key)
  let count = 0
  for await (const rows of pages(from.db, table, key)) {
    const { value: copied } = await copies.next()
    const differs = rows.findIndex((row, index) => !isDeepStrictEqual({ ...row }, { ...copied?.[index] }))
    if (differs >= 0) {
      const place = JSON.stringify(key.map((column) => rows[differs]![column]))
      throw new DatabaseError(`The copy of ${table} differs at ${place}; run the command again with an empty target.`)
    }
    count += rows.length
    onRows(rows.length)
  }
  const { value: more } = await copies.next()
  if (more) throw new DatabaseError(`The copy of ${table} has rows that are missing in the source.`)
  return count
}

/**
 * Copies every row of a database without writers into an empty one of either engine, then compares all rows.
 * Calling it again resumes an interrupted copy. Both databases must have the newest schema.
 * Resolves with the row count of each table. Rejects with DatabaseError; the target then stays marked as unfinished.
 */
async function copyDatabase(
  from: Database,
  to: Database,
  now: number,
  onProgress: (progress: CopyProgress) => void,
  /** Runs a last check before the copy is marked as complete. */
  verify: (to: Database) => Promise<void>,
): Promise<Record<string, number>> {
  await claimTarget(from, to)
  const mark = await readMark(from)
  await prepareAllDays(from, to, now)
  const total = 2 * (await estimateRows(from.db))
  const report = (phase: CopyProgress['phase'], table: Table) => (rows: number) =>
    onProgress({ phase, table, rows: table === 'events' ? rows : 0, total })
  for (const { table, key, grows } of plan) {
    if (!grows) await empty(to.db, table, key)
    const columns = await readColumns(from.db, table)
    for await (const rows of pages(from.db, table, key, grows ? await readLast(to.db, table, key) : undefined)) {
      await insertRows(to, table, columns, rows)
      report('copy', table)(rows.length)
    }
  }
  const assertUnchanged = async () => {
    if ((await readMark(from)) === mark) return
    throw new DatabaseError('The source changed while it was copied: stop every service that uses it and run again.')
  }
  const counts: Record<string, number> = {}
  try {
    for (const step of plan) counts[step.table] = await compare(from, to, step, report('compare', step.table))
  } catch (fault) {
    // If the source changed, report that as the cause of the difference.
    await assertUnchanged()
    throw fault
  }
  await assertUnchanged()
  await verify(to)
  const check = await readSecretCheck(from.db)
  if (check !== undefined) await claimFact(to.db, 'secret_check', check)
  if (await isFactKnown(from.db, 'people_only')) await claimFact(to.db, 'people_only', 'true')
  await to.db.deleteFrom('facts').where('name', '=', 'copying_from').execute()
  return counts
}

/** Migrates the databases at both URLs to the newest schema, then copies as copyDatabase does. */
export async function copyBetween(
  fromUrl: string,
  toUrl: string,
  onProgress: (progress: CopyProgress) => void,
  verify: (to: Database) => Promise<void>,
): Promise<Record<string, number>> {
  const now = systemClock.now()
  const open = async (url: string) => {
    const database = await openDatabase(url, () => {})
    await migrate(database, now)
    return database
  }
  const file = sqliteFile(fromUrl)
  if (file !== undefined && !existsSync(file)) throw new DatabaseError(`There is no database file ${file}.`)
  const from = await open(fromUrl)
  try {
    const to = await open(toUrl)
    try {
      return await copyDatabase(from, to, now, onProgress, verify)
    } finally {
      await to.close()
    }
  } finally {
    await from.close()
  }
}
