import type { Heartbeat } from '@wardline/contract'
import { CompiledQuery, sql } from 'kysely'
import type { Database, Row, Statement } from '../../db/database.ts'
import { tagsText } from './tags.ts'
import type { VersionClaim } from './version-claims.ts'

/** A heartbeat, and to whom the instance belongs if it is new. */
export interface Beat {
  heartbeat: Heartbeat
  registers: { owner: string; max: number | null }
  /** The key that sent it. */
  keyId: string
}

/** Compiled once; only the parameters change from batch to batch. */
interface HeartbeatStatements {
  refresh: string
  unknown: string
  applied: string
  tags: string
  lock: string
  register: string
  refused: string
  beyond: string
}

const columns = {
  id: 'text',
  name: 'text',
  agent_type: 'text',
  version: 'text',
  fail_mode: 'text',
  boot_id: 'text',
} as const
const newColumns = { ...columns, owner: 'text', allowance: 'bigint' } as const

/** A heartbeat writes only its own columns: it can neither lift a suspension nor undo a verdict. */
export function compileHeartbeats({ db, dialect }: Database): HeartbeatStatements {
  const names = sql.join(Object.keys(columns).map((name) => sql.ref(name)))
  const rows = dialect.rowsFromJson('', columns)
  const newRows = dialect.rowsFromJson('', newColumns)
  const kept = sql.join(
    ['agent_type', 'version', 'fail_mode', 'boot_id'].map((name) => {
      const column = sql.ref(name)
      return sql`${column} = coalesce(batch.${column}, instances.${column})`
    }),
  )
  const isUnknown = sql`not exists (select 1 from instances where instances.id = batch.id)`
  const isNews = sql`batch.version <= control_version and (applied_version is null or applied_version < batch.version)`
  const registered = (owner: ReturnType<typeof sql>) =>
    sql`coalesce((select count from instance_counts where instance_counts.owner = ${owner}), 0)`
  const isKeyFull = sql`(allowance is not null and ${registered(sql`batch.owner`)} >= allowance)`
  const text = (query: ReturnType<typeof sql>) => query.compile(db).sql
  return {
    refresh: text(sql`update instances set name = batch.name, ${kept}, last_heartbeat_at = ${0}
      from ${rows} as batch where instances.id = batch.id`),
    unknown: text(sql`select id from ${dialect.rowsFromJson('', { id: 'text' })} as batch where ${isUnknown}`),
    // One statement for what is confirmed and for what was never issued: most heartbeats change neither.
    applied: text(sql`update instances set
        applied_version = case when ${isNews} then batch.version else applied_version end,
        applied_at = case when ${isNews} then ${0} else applied_at end,
        claimed_version = case when batch.version > control_version then batch.version end
      from ${dialect.rowsFromJson('', { id: 'text', version: 'bigint' })} as batch
      where instances.id = batch.id
        and (${isNews} or batch.version > control_version or claimed_version is not null)
      returning instances.id, instances.control_version, instances.claimed_version`),
    tags: text(sql`update instances set agent_tags = batch.tags
      from ${dialect.rowsFromJson('', { id: 'text', tags: 'text' })} as batch
      where instances.id = batch.id and coalesce(agent_tags, '[]') <> batch.tags`),
    // Of processes that register at the same time each sees what the one before has counted.
    lock: text(sql`update instance_counts set count = count where owner = ''`),
    // Places are given first within the allowance of each key, then within that of the service.
    register: text(sql`insert into instances (${names}, owner, first_seen_at, last_heartbeat_at, control_version)
      select ${names}, owner, ${0}, ${0},
        coalesce((select control_version from deleted_instances where deleted_instances.id = allowed.id), 0)
      from (select mine.*, row_number() over (order by ordinal) as place from (
          select batch.*, row_number() over (partition by owner order by ordinal) as place_of_owner
          from ${newRows} as batch where ${isUnknown}
        ) as mine where allowance is null or place_of_owner <= allowance - ${registered(sql`mine.owner`)}
      ) as allowed where place <= ${0} - ${registered(sql`''`)}
      on conflict (id) do nothing`),
    refused: text(sql`select id, case when ${isKeyFull} then 1 else 0 end as by_key
      from ${newRows} as batch where ${isUnknown}`),
    beyond: text(sql`select id, case when ${isKeyFull} then 1 else 0 end as by_key
      from ${newRows} as batch where ${isUnknown} and (${isKeyFull} or ${registered(sql`''`)} >= ${0})`),
  }
}

const cells = ({ heartbeat }: Beat) => [
  heartbeat.instance_id,
  heartbeat.name,
  heartbeat.agent_type ?? null,
  heartbeat.version ?? null,
  heartbeat.fail_mode ?? null,
  heartbeat.boot_id ?? null,
]

function appliedStatements(texts: HeartbeatStatements, beats: readonly Beat[], now: number): Statement[] {
  const applied = beats.flatMap(({ heartbeat: { instance_id, control_version } }) =>
    control_version === undefined ? [] : [[instance_id, control_version]],
  )
  return applied.length > 0 ? [CompiledQuery.raw(texts.applied, [now, JSON.stringify(applied)])] : []
}

/** Most heartbeats carry no tags, and cost nothing here; those that do mostly carry what is known. */
function tagStatements(texts: HeartbeatStatements, beats: readonly Beat[]): Statement[] {
  const tagged = beats.flatMap(({ heartbeat: { instance_id, tags } }) =>
    tags === undefined ? [] : [[instance_id, tagsText(tags)]],
  )
  return tagged.length > 0 ? [CompiledQuery.raw(texts.tags, [JSON.stringify(tagged)])] : []
}

/** The agents that say they applied what was never issued, from the rows of `appliedStatements`. */
const claimsOf = (rows: readonly Row[]): VersionClaim[] =>
  rows.flatMap(({ id, control_version, claimed_version }) =>
    claimed_version === null
      ? []
      : [{ instanceId: String(id), claimed: claimed_version as number, version: control_version as number }],
  )

/** Refreshes the instances that are known; resolves with the ids of the others, and with who is ahead. */
export async function refreshInstances(
  { batch }: Pick<Database, 'batch'>,
  texts: HeartbeatStatements,
  beats: readonly Beat[],
  now: number,
): Promise<{ unknown: Set<string>; claims: VersionClaim[] }> {
  const ids = JSON.stringify(beats.map(({ heartbeat }) => [heartbeat.instance_id]))
  const [unknown, , ...others] = await batch([
    CompiledQuery.raw(texts.unknown, [ids]),
    CompiledQuery.raw(texts.refresh, [now, JSON.stringify(beats.map(cells))]),
    ...appliedStatements(texts, beats, now),
    ...tagStatements(texts, beats),
  ])
  return { unknown: new Set(unknown!.map(({ id }) => id as string)), claims: claimsOf(others.flat()) }
}

/** Whether it is for the limit of the key, by instance. */
type Refused = Map<string, { byKey: boolean }>

const rowsOf = (beats: readonly Beat[]) =>
  JSON.stringify(beats.map((beat) => [...cells(beat), beat.registers.owner, beat.registers.max]))
const refusedOf = (rows: readonly Row[]): Refused =>
  new Map(rows.map((row) => [row.id as string, { byKey: row.by_key === 1 }]))

/** The unknown instances for which there is no place as of now. */
export async function findBeyondLimits(
  { batch }: Pick<Database, 'batch'>,
  texts: HeartbeatStatements,
  beats: readonly Beat[],
  max: number,
): Promise<Refused> {
  const [rows] = await batch([CompiledQuery.raw(texts.beyond, [rowsOf(beats), max])])
  return refusedOf(rows!)
}

/** Registers as many of the instances as may be; resolves with the others, and whether it was for the limit of their key. */
export async function registerInstances(
  { batch }: Pick<Database, 'batch'>,
  texts: HeartbeatStatements,
  beats: readonly Beat[],
  max: number,
  now: number,
): Promise<{ refused: Refused; claims: VersionClaim[] }> {
  const rows = rowsOf(beats)
  const [, , refused, ...others] = await batch([
    CompiledQuery.raw(texts.lock, []),
    CompiledQuery.raw(texts.register, [now, now, rows, max]),
    CompiledQuery.raw(texts.refused, [rows]),
    ...appliedStatements(texts, beats, now),
    ...tagStatements(texts, beats),
  ])
  return { refused: refusedOf(refused!), claims: claimsOf(others.flat()) }
}
