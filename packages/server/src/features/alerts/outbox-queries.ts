import { CompiledQuery, sql } from 'kysely'
import type { Database, Db, Dialect, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

/** An alert before it has its place in the sequence. `back`: how many events of its transaction follow its own; null = of no event. */
export interface AlertToWrite
  extends Pick<
    Schema['alerts'],
    | 'id'
    | 'created_at'
    | 'severity'
    | 'event_type'
    | 'source'
    | 'description'
    | 'instance_id'
    | 'session_id'
    | 'by_service'
    | 'status'
  > {
  back: number | null
}

const columns = {
  id: 'text',
  created_at: 'bigint',
  severity: 'text',
  event_type: 'text',
  source: 'text',
  description: 'text',
  instance_id: 'text',
  session_id: 'text',
  by_service: 'bigint',
  status: 'text',
  event_seq: 'bigint',
} as const

export interface OutboxStatements {
  takeSeqs: string
  alerts: ReturnType<Dialect['insertSequenced']>
}

/** Compiled once; only the parameters change. */
export function compileOutbox({ db, dialect }: Database): OutboxStatements {
  return {
    takeSeqs: sql`update counters set value = value + ${0} where name = 'alert_seq'`.compile(db).sql,
    alerts: dialect.insertSequenced('alerts', columns, 'alert_seq', { event_seq: 'event_seq' }),
  }
}

/** Writes alerts in their order; within the transaction that stores their events, after these. */
export function outboxStatements(compiled: OutboxStatements, alerts: readonly AlertToWrite[]): Statement[] {
  const rows = alerts.map((alert) => [
    alert.id,
    alert.created_at,
    alert.severity,
    alert.event_type,
    alert.source,
    alert.description,
    alert.instance_id,
    alert.session_id,
    alert.by_service,
    alert.status,
    alert.back,
  ])
  return [CompiledQuery.raw(compiled.takeSeqs, [alerts.length]), compiled.alerts(rows)]
}

/** Ends problems of an instance; after the alert that says so was written. */
export function resolveStatement(db: Db, types: readonly string[], instanceId: string | null, now: number): Statement {
  return db
    .updateTable('alerts')
    .set({ status: 'resolved', changed_at: now })
    .where('event_type', 'in', [...types])
    .where('instance_id', instanceId === null ? 'is' : '=', instanceId as never)
    .where('status', '<>', sql.lit('resolved'))
    .where('severity', '<>', sql.lit('info'))
    .where('by_service', '=', 1)
    .compile()
}
