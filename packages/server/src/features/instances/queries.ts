import type { Heartbeat } from '@wardline/contract'
import { CompiledQuery, sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'

export interface HeartbeatStatements {
  upsert: string
  applied: string
}

/** Compiled once. A heartbeat writes only its own columns: it can neither lift a suspension nor undo a verdict. */
export function compileHeartbeats({ db, dialect }: Database): HeartbeatStatements {
  const columns = {
    id: 'text',
    name: 'text',
    agent_type: 'text',
    version: 'text',
    fail_mode: 'text',
    boot_id: 'text',
  } as const
  const names = sql.join(Object.keys(columns).map((name) => sql.ref(name)))
  const kept = sql.join(
    ['agent_type', 'version', 'fail_mode', 'boot_id'].map((name) => {
      const column = sql.ref(name)
      return sql`${column} = coalesce(excluded.${column}, instances.${column})`
    }),
  )
  const applied = dialect.rowsFromJson('', { id: 'text', version: 'bigint' })
  return {
    upsert: sql`insert into instances (${names}, first_seen_at, last_heartbeat_at)
      select ${names}, ${0}, ${0} from ${dialect.rowsFromJson('', columns)} as batch where true
      on conflict (id) do update set name = excluded.name, ${kept}, last_heartbeat_at = excluded.last_heartbeat_at`.compile(
      db,
    ).sql,
    applied: sql`update instances set applied_version = batch.version, applied_at = ${0}
      from ${applied} as batch
      where instances.id = batch.id and batch.version <= instances.control_version
        and (instances.applied_version is null or instances.applied_version < batch.version)`.compile(db).sql,
  }
}

export function heartbeatStatements(texts: HeartbeatStatements, beats: readonly Heartbeat[], now: number): Statement[] {
  const rows = beats.map((beat) => [
    beat.instance_id,
    beat.name,
    beat.agent_type ?? null,
    beat.version ?? null,
    beat.fail_mode ?? null,
    beat.boot_id ?? null,
  ])
  const applied = beats.flatMap(({ instance_id, control_version }) =>
    control_version === undefined ? [] : [[instance_id, control_version]],
  )
  const statements = [CompiledQuery.raw(texts.upsert, [now, now, JSON.stringify(rows)])]
  if (applied.length > 0) statements.push(CompiledQuery.raw(texts.applied, [now, JSON.stringify(applied)]))
  return statements
}

/** Every instance with what its status derives from, by id. */
export function readFleet(db: Db) {
  return db
    .selectFrom('instances')
    .select(['id', 'name', 'last_heartbeat_at', 'suspended', 'suspension_reason'])
    .orderBy('id')
    .execute()
}

export function findInstance(db: Db, id: string) {
  return db.selectFrom('instances').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Instances in all, suspended, and active (a heartbeat since `activeSince`, not suspended); the latest heartbeat. */
export async function countFleet(db: Db, activeSince: number) {
  const row = await db
    .selectFrom('instances')
    .select((e) => [
      e.fn.countAll<number>().as('total'),
      e.fn.sum<number | null>('suspended').as('suspended'),
      sql<number | null>`sum(case when suspended = 0 and last_heartbeat_at >= ${activeSince} then 1 else 0 end)`.as(
        'active',
      ),
      e.fn.max('last_heartbeat_at').as('last'),
    ])
    .executeTakeFirstOrThrow()
  return {
    total: Number(row.total),
    suspended: Number(row.suspended ?? 0),
    active: Number(row.active ?? 0),
    lastHeartbeatAt: row.last === null ? null : Number(row.last),
  }
}
