import { sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'

/** A process without a sign of life for this long is gone or cannot send: three times `aliveEveryMs`. */
const aliveForMs = 15_000

/** Records that the process is alive. Returns its first sign of life, which is `now` if another process had removed it. */
export function aliveStatement(db: Db, process: string, now: number): Statement {
  return db
    .insertInto('stream_processes')
    .values({ id: process, started_at: now, seen_at: now })
    .onConflict((conflict) => conflict.column('id').doUpdateSet({ seen_at: now }))
    .returning('started_at')
    .compile()
}

/** Instance id, and the kinds that its streams understand. */
export type StreamCells = [string, string]

/** Records instances that listen to this process. */
export function openedStatement({ db, dialect }: Database, process: string, rows: readonly StreamCells[]): Statement {
  return sql`insert into control_streams (process, instance_id, understands)
    select cast(${process} as text), instance_id, understands
    from ${dialect.rowsFromJson(JSON.stringify(rows), { instance_id: 'text', understands: 'text' })} as batch where true
    on conflict (process, instance_id) do update set understands = excluded.understands`.compile(db)
}

/** Removes instances that no longer listen to this process. */
export function closedStatement({ db, dialect }: Database, process: string, ids: readonly string[]): Statement {
  const rows = dialect.rowsFromJson(JSON.stringify(ids.map((id) => [id])), { id: 'text' })
  return sql`delete from control_streams where process = ${process}
    and instance_id in (select id from ${rows} as batch)`.compile(db)
}

/**
 * Removes other processes that were last seen before an instant, and up to `limit` of their streams. The process is
 * removed first: if it was only paused, it notices that it is missing and records all its streams again.
 */
export function forgottenStatements(db: Db, process: string, before: number, limit: number): Statement[] {
  const orphans = sql`select process, instance_id from control_streams
    where not exists (select 1 from stream_processes where stream_processes.id = control_streams.process)
    limit ${limit}`
  return [
    db.deleteFrom('stream_processes').where('seen_at', '<', before).where('id', '<>', process).compile(),
    sql`delete from control_streams where (process, instance_id) in (${orphans})`.compile(db),
  ]
}

/** Removes a process on its shutdown, with its streams. */
export function endedStatements(db: Db, process: string): Statement[] {
  return [
    db.deleteFrom('control_streams').where('process', '=', process).compile(),
    db.deleteFrom('stream_processes').where('id', '=', process).compile(),
  ]
}

/** Kinds that the open control streams of an instance understand, across all live processes. */
export interface Listening {
  instanceId: string
  /** Kinds of messages beyond control messages; none for a client that knows control messages alone. */
  understands: string[]
}

/** Finds the instances with an open stream, at most a second out of date. Instances not in the result have none. */
export async function findListening(
  { db, dialect }: Database,
  ids: readonly string[],
  now: number,
): Promise<Listening[]> {
  const wanted = dialect.rowsFromJson(JSON.stringify(ids.map((id) => [id])), { id: 'text' })
  const { rows } = await sql<{ instance_id: string; understands: string }>`
    select control_streams.instance_id, control_streams.understands from ${wanted} as wanted
    join control_streams on control_streams.instance_id = wanted.id
    join stream_processes on stream_processes.id = control_streams.process
    where stream_processes.seen_at >= ${now - aliveForMs}`.execute(db)
  const found = new Map<string, Set<string>>()
  for (const { instance_id, understands } of rows) {
    const kinds = found.get(instance_id) ?? new Set()
    for (const kind of understands.split(',')) if (kind !== '') kinds.add(kind)
    found.set(instance_id, kinds)
  }
  return [...found].map(([instanceId, kinds]) => ({ instanceId, understands: [...kinds].toSorted() }))
}
