import { type AlertCountQuery, type AlertQuery, limits, type Severity, severities } from '@wardline/contract'
import { CompiledQuery, type ExpressionBuilder, type SelectQueryBuilder, sql } from 'kysely'
import { counterValue, lockCounter, raiseCounter, readCounter } from '../../../db/counters.ts'
import type { Database, Db, Dialect, Statement, Trx } from '../../../db/database.ts'
import type { Schema } from '../../../db/schema.ts'
import { isOfTeam, type Team } from '../../../db/teams.ts'
import type { StoredAlert } from './alert.ts'

// Owns the tables alerts and alert_overflow, in which alerts beyond a limit are counted.

const factColumns = {
  id: 'text',
  created_at: 'bigint',
  severity: 'text',
  event_type: 'text',
  source: 'text',
  description: 'text',
  instance_id: 'text',
  subject: 'text',
  only_channels: 'text',
  session_id: 'text',
  by_service: 'bigint',
  event_seq: 'bigint',
} as const satisfies Partial<Record<keyof StoredAlert, string>>
const writtenColumns = { ...factColumns, status: 'text' } as const
const writtenNames = Object.keys(writtenColumns) as (keyof typeof writtenColumns)[]

export const plannedColumns = ['seq', ...(Object.keys(factColumns) as (keyof typeof factColumns)[])] as const
/** An alert as read for planning: without its handling by people, which may change in the meantime. */
export type PlannedAlert = Pick<StoredAlert, (typeof plannedColumns)[number]>

/** An alert before it has a seq. `back`: number of events after its own in the transaction; null: without event. */
export type NewAlert = Omit<Pick<StoredAlert, keyof typeof writtenColumns>, 'event_seq'> & { back: number | null }

export type OverflowRow = Schema['alert_overflow']
const overflowColumns = {
  minute: 'bigint',
  by_service: 'bigint',
  instance_id: 'text',
  event_type: 'text',
  severity: 'text',
  count: 'bigint',
} as const satisfies Record<keyof OverflowRow, string>
const overflowNames = Object.keys(overflowColumns) as (keyof OverflowRow)[]

/** SQL texts, compiled once; only the parameters differ. */
interface OutboxStatements {
  takeSeqs: string
  alerts: ReturnType<Dialect['insertSequenced']>
  overflow: string
}

export function compileOutbox({ db, dialect }: Database): OutboxStatements {
  const columns = sql.raw(overflowNames.join(', '))
  return {
    takeSeqs: raiseCounter('alert_seq', 0).compile(db).sql,
    alerts: dialect.insertSequenced('alerts', writtenColumns, 'alert_seq', { event_seq: 'event_seq' }),
    overflow: sql`insert into alert_overflow (${columns})
      select ${columns} from ${dialect.rowsFromJson('', overflowColumns)} as batch where true
      on conflict (minute, by_service, instance_id, event_type, severity)
        do update set count = alert_overflow.count + excluded.count`.compile(db).sql,
  }
}

/** Returns statements that insert alerts in order, within the transaction that stores their events, after these. */
export function alertInserts(compiled: OutboxStatements, alerts: readonly NewAlert[]): Statement[] {
  const rows = alerts.map((alert) => writtenNames.map((name) => alert[name === 'event_seq' ? 'back' : name]))
  return [CompiledQuery.raw(compiled.takeSeqs, [alerts.length]), compiled.alerts(rows)]
}

type About = Pick<StoredAlert, 'instance_id' | 'subject'>

/** Compares with SQL literals, because `= null` is never true. */
export const isAbout =
  ({ instance_id, subject }: About) =>
  (e: ExpressionBuilder<Schema, 'alerts'>) =>
    e.and([
      e('instance_id', instance_id === null ? 'is' : '=', instance_id as never),
      e('subject', subject === null ? 'is' : '=', subject as never),
    ])

/** Resolves the problems of an instance or subject, after the alert that reports their end was inserted. */
export function resolveStatement(db: Db, types: readonly string[], about: About, now: number): Statement {
  return db
    .updateTable('alerts')
    .set({ status: 'resolved', changed_at: now })
    .where('event_type', 'in', [...types])
    .where(isAbout(about))
    .where('status', '<>', sql.lit('resolved'))
    .where('severity', '<>', sql.lit('info'))
    .where('by_service', '=', 1)
    .compile()
}

/** Counts alerts instead of inserting them, within the transaction of their events. */
export function overflowStatement(compiled: OutboxStatements, counted: readonly OverflowRow[]): Statement {
  const rows = counted.map((row) => overflowNames.map((name) => row[name]))
  return CompiledQuery.raw(compiled.overflow, [JSON.stringify(rows)])
}

export async function hasOverflow(db: Db, minutesBefore: number): Promise<boolean> {
  const row = await db
    .selectFrom('alert_overflow')
    .select('minute')
    .where('minute', '<', minutesBefore)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/**
 * Removes and returns the counts of earlier minutes. Takes the lock of the outbox first, like ingest does before it
 * counts: locks taken in different orders could deadlock.
 */
export async function takeOverflow(trx: Trx, minutesBefore: number): Promise<OverflowRow[]> {
  await lockCounter('alert_seq').execute(trx)
  return trx.deleteFrom('alert_overflow').where('minute', '<', minutesBefore).returningAll().execute()
}

/** `readAlertHead` as a subquery. */
export const newestAlert = counterValue('alert_seq')

/** Returns the last assigned seq of an alert; all alerts up to it are committed. */
export const readAlertHead = (db: Db): Promise<number> => readCounter(db, 'alert_seq')

const ownAfter = (db: Db, after: number) =>
  db
    .selectFrom('alerts')
    .where('seq', '>', after)
    // A literal as in the partial index, which is not used for a parameter.
    .where('by_service', '=', sql.lit(1))

/** Reads alerts of the service itself after a seq, in order, of any severity. */
export function readOwnAlerts(db: Db, after: number, limit: number): Promise<PlannedAlert[]> {
  return ownAfter(db, after).select(plannedColumns).orderBy('seq').limit(limit).execute()
}

export async function countOwnAlerts(db: Db, after: number): Promise<number> {
  const { count } = await ownAfter(db, after)
    .select((e) => e.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return count
}

/** Reads reported alerts after a seq, in order, of these severities. */
export function readReportedAlerts(
  db: Db,
  { after, upTo, severities, limit }: { after: number; upTo: number; severities: readonly Severity[]; limit: number },
): Promise<PlannedAlert[]> {
  return db
    .selectFrom('alerts')
    .select(plannedColumns)
    .where('seq', '>', after)
    .where('seq', '<=', upTo)
    .where('severity', 'in', [...severities])
    .where('by_service', '=', 0)
    .orderBy('seq')
    .limit(limit)
    .execute()
}

/** Reads these alerts, oldest first; with `status` only those in this state. */
export async function readAlerts(db: Db, seqs: readonly number[], status?: StoredAlert['status']) {
  if (seqs.length === 0) return []
  const query = db
    .selectFrom('alerts')
    .select(plannedColumns)
    .where('seq', 'in', [...seqs])
    .orderBy('seq')
  return (status === undefined ? query : query.where('status', '=', status)).execute()
}

/** Rows read per page: a rare filter over a year of alerts must not delay other readers. */
const scanWindow = 100_000

interface AlertPage {
  rows: StoredAlert[]
  /** All alerts above this seq were read; undefined if all were. */
  lookedDownTo: number | undefined
}

/** Alerts that may need attention. Literals as in the partial index, which is not used for parameters. */
export const toHandle = (e: ExpressionBuilder<Schema, 'alerts'>) =>
  e.and([e('status', '<>', sql.lit('resolved')), e('severity', '<>', sql.lit('info'))])

const asksForToHandle = ({ status, severity }: AlertQuery): boolean =>
  (status === 'open' || status === 'acknowledged') && severity !== 'info'

/** Returns the lowest seq of the `max` alerts to handle below a seq; undefined if there are fewer. */
async function lowestToHandle(db: Db, below: number, max: number): Promise<number | undefined> {
  const row = await db
    .selectFrom('alerts')
    .select('seq')
    .where('seq', '<', below)
    .where(toHandle)
    .orderBy('seq', 'desc')
    .offset(max - 1)
    .limit(1)
    .executeTakeFirst()
  return row?.seq
}

/** Returns the lowest of the `max` seqs below a seq; undefined if there are fewer. */
async function lowestOfAll(db: Db, below: number, max: number): Promise<number | undefined> {
  const { head, oldest } = await db
    .selectFrom('alerts')
    .select((e) => [e.fn.max('seq').as('head'), e.fn.min('seq').as('oldest')])
    .executeTakeFirstOrThrow()
  const lowest = Math.min(below, (head ?? 0) + 1) - max
  return lowest > (oldest ?? 0) ? lowest : undefined
}

/** The filter of a request, with the id of whom it means by `assigned`, null = unassigned alerts, and the caller's team. */
type Narrowed<Filter> = Omit<Filter, 'assigned'> & { assignee?: string | null; team: Team }

function matching<Row>(
  query: SelectQueryBuilder<Schema, 'alerts', Row>,
  { min_severity, assignee, team, ...filter }: Narrowed<AlertQuery>,
) {
  let chosen = query.where(isOfTeam('instance_id', team))
  if (assignee !== undefined) chosen = chosen.where('assignee', assignee === null ? 'is' : '=', assignee as never)
  for (const column of ['status', 'severity', 'event_type', 'instance_id'] as const) {
    const value = filter[column]
    if (value !== undefined) chosen = chosen.where(column, '=', value as never)
  }
  return min_severity === undefined
    ? chosen
    : chosen.where('severity', 'in', severities.slice(severities.indexOf(min_severity)))
}

/** Reads a page, newest first; the next one continues at `lookedDownTo`. */
export async function readAlertPage(
  db: Db,
  filter: Narrowed<AlertQuery>,
  before: number,
  limit: number,
): Promise<AlertPage> {
  const isToHandle = asksForToHandle(filter)
  const lowest = await (isToHandle ? lowestToHandle : lowestOfAll)(db, before, scanWindow)
  const rows = await matching(db.selectFrom('alerts').selectAll(), filter)
    .where('seq', '<', before)
    .where('seq', '>=', lowest ?? 0)
    .$if(isToHandle, (query) => query.where(toHandle))
    .orderBy('seq', 'desc')
    .limit(limit)
    .execute()
  return { rows, lookedDownTo: rows.length === limit ? rows.at(-1)!.seq : lowest }
}

/** Reads what names the newest alerts above info, newest first. */
export async function readTitledAlerts(db: Db, limit: number) {
  return db
    .selectFrom('alerts')
    .select(['id', 'event_type', 'by_service', 'instance_id', 'source', 'severity', 'status', 'created_at'])
    .where('seq', '>=', (await lowestOfAll(db, Number.MAX_SAFE_INTEGER, scanWindow)) ?? 0)
    .where('severity', '<>', sql.lit('info') as never)
    .orderBy('seq', 'desc')
    .limit(limit)
    .execute()
}

/**
 * Counts alerts by status and severity: among alerts to handle the newest 10,000, among others those within the newest
 * 10,000 of all alerts.
 */
export async function countAlertRows(db: Db, filter: Narrowed<AlertCountQuery>) {
  const newest = Number.MAX_SAFE_INTEGER
  const lowest = {
    toHandle: await lowestToHandle(db, newest, limits.countedAlerts),
    others: await lowestOfAll(db, newest, limits.countedAlerts),
  }
  const from = (seq: number | undefined) =>
    matching(
      db.selectFrom('alerts').select((e) => ['status', 'severity', e.fn.countAll<number>().as('count')]),
      filter,
    )
      .where('seq', '>=', seq ?? 0)
      .groupBy(['status', 'severity'])
  const counts = [
    ...(await from(lowest.toHandle).where(toHandle).execute()),
    ...(await from(lowest.others)
      .where((e) => e.not(toHandle(e)))
      .execute()),
  ]
  return { counts, complete: lowest.toHandle === undefined && lowest.others === undefined }
}

export function findAlert(db: Db, id: string, team?: Team): Promise<StoredAlert | undefined> {
  return db
    .selectFrom('alerts')
    .selectAll()
    .where('id', '=', id)
    .where(isOfTeam('instance_id', team))
    .executeTakeFirst()
}

/** Alerts searched for an open one, from the newest: an incident is not further back. */
const searched = 10_000

/** Returns the newest open alert of critical or breach about an instance before a seq; null if there is none. */
export async function findOpenAlert(
  db: Db,
  instanceId: string,
  before: number,
): Promise<Pick<StoredAlert, 'id' | 'severity'> | null> {
  const found = await db
    .selectFrom('alerts')
    .select(['id', 'severity'])
    .where('seq', '<', before)
    .where('seq', '>', before - searched)
    .where('instance_id', '=', instanceId)
    .where('status', '=', 'open')
    .where('severity', 'in', ['critical', 'breach'])
    .where(toHandle)
    .orderBy('seq', 'desc')
    .limit(1)
    .executeTakeFirst()
  return found ?? null
}

/** What people did about the alerts of one type about one instance. */
export interface ProblemState extends Pick<StoredAlert, 'event_type' | 'instance_id' | 'by_service'> {
  /** When the last alert was acknowledged or resolved. */
  handled_at: number | null
  /** The newest open alert. */
  open_seq: number | null
}

/** Reads the state of critical problems and breaches, from the newest 100,000 alerts since a time. */
export async function readProblemStates(db: Db, since: number): Promise<ProblemState[]> {
  const lowest = await lowestOfAll(db, Number.MAX_SAFE_INTEGER, scanWindow)
  return db
    .selectFrom('alerts')
    .select((e) => [
      'event_type',
      'instance_id',
      'by_service',
      e.fn
        .max<number | null>(e.case().when('status', '<>', 'open').then(e.fn.coalesce('changed_at', 'created_at')).end())
        .as('handled_at'),
      e.fn.max<number | null>(e.case().when('status', '=', 'open').then(e.ref('seq')).end()).as('open_seq'),
    ])
    .where('seq', '>=', lowest ?? 0)
    .where('created_at', '>', since)
    .where('severity', 'in', ['critical', 'breach'])
    .groupBy(['event_type', 'instance_id', 'by_service'])
    .execute()
}

/** Returns the ids of these alerts by seq. */
export async function findOpenIds(db: Db, seqs: readonly number[]): Promise<Map<number, string>> {
  if (seqs.length === 0) return new Map()
  const rows = await db
    .selectFrom('alerts')
    .select(['seq', 'id'])
    .where('seq', 'in', [...seqs])
    .where('status', '=', 'open')
    .execute()
  return new Map(rows.map(({ seq, id }) => [seq, id]))
}

/** Reads the oldest alerts created before `cutoff`, ordered by seq. */
export async function readExpiredAlerts(db: Db, cutoff: number, limit: number): Promise<number[]> {
  const oldest = await db.selectFrom('alerts').select(['seq', 'created_at']).orderBy('seq').limit(limit).execute()
  return oldest.filter(({ created_at }) => created_at < cutoff).map(({ seq }) => seq)
}

export async function deleteAlerts(db: Db, seqs: readonly number[]): Promise<void> {
  await db
    .deleteFrom('alerts')
    .where('seq', 'in', [...seqs])
    .execute()
}
