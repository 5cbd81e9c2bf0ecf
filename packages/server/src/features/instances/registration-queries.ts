import { offlineAfterMs } from '@wardline/contract'
import { CompiledQuery, sql } from 'kysely'
import { minuteMs } from '../../clock.ts'
import type { Database, Db, Row, Statement } from '../../db/database.ts'
import { type Beat, controlVersionOf, isOfSupervisor, isSupervisedBy, leavingOf } from './beats.ts'
import type { BootChange } from './boot-queries.ts'
import { provenAt } from './control-statements.ts'
import { parentStatements } from './parent-queries.ts'
import { claimsOfParents, type OtherParent, parentOf } from './parents.ts'
import { tagsText } from './tags.ts'
import type { VersionClaim } from './version-claims.ts'

/** SQL texts, compiled once; only the parameters differ between batches. */
export interface HeartbeatStatements {
  refresh: string
  strangers: string
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
  leaving: 'bigint',
  by_agent: 'bigint',
  supervised: 'bigint',
} as const
const runColumns = {
  id: 'text',
  boot_id: 'text',
  agent_type: 'text',
  version: 'text',
  fail_mode: 'text',
  by_agent: 'bigint',
  parent: 'text',
} as const
const appliedColumns = { id: 'text', version: 'bigint', by_agent: 'bigint' } as const
const stored = ['id', 'name', 'agent_type', 'version', 'fail_mode', 'boot_id']
const newColumns = {
  ...columns,
  owner: 'text',
  allowance: 'bigint',
  key_tags: 'text',
  held_version: 'bigint',
  held_reason: 'text',
} as const

/** Maximum of the learned longest gap, so that the silence of a night is always reported. */
const maxLongestGapMs = 20 * minuteMs

/** Without a heartbeat for so long, the supervisor of an agent is gone: that of an agent which is offline. */
const isSupervised = (at: ReturnType<typeof sql>) =>
  sql`coalesce(supervised_at, 0) >= ${at} - ${sql.lit(offlineAfterMs)}`

/** Compiles the statements. Heartbeats write only their own columns, so they cannot lift a suspension or undo a verdict. */
export function compileHeartbeats({ db, dialect }: Database): HeartbeatStatements {
  const names = sql.join(stored.map((name) => sql.ref(name)))
  const rows = sql`(select cast(${0} as bigint) as at, batch.* from ${dialect.rowsFromJson('', columns)} as batch)`
  const newRows = dialect.rowsFromJson('', newColumns)
  const kept = sql.join(
    ['agent_type', 'version', 'fail_mode'].map((name) => {
      const column = sql.ref(name)
      return sql`${column} = coalesce(case when by_agent = 1 then batch.${column} end, instances.${column})`
    }),
  )
  // What a run without a boot id says of itself does not change while it lasts.
  const isOtherRun = sql`(coalesce(instances.boot_id, '') <> coalesce(batch.boot_id, '') or (batch.boot_id is null
    and (instances.agent_type <> batch.agent_type or instances.version <> batch.version
      or instances.fail_mode <> batch.fail_mode)))`
  const isOtherParent = sql`coalesce(instances.parent_id, '') <> batch.parent`
  const gap = sql`(batch.at - last_heartbeat_at)`
  // The time between two runs of an agent is not a gap between heartbeats.
  const isOneRun = sql`(coalesce(batch.boot_id, instances.boot_id, '') = coalesce(instances.boot_id, '')
    and coalesce(left_at, -1) < last_heartbeat_at)`
  // A longer gap raises the maximum by half at most; each shorter one lowers it slightly, so that it decays within a day.
  const gaps = sql`
    typical_gap_ms = case when ${isOneRun} and ${gap} between 0 and typical_gap_ms * 5 / 2
      then typical_gap_ms + (${gap} - typical_gap_ms) / 16 else typical_gap_ms end,
    longest_gap_ms = case when not ${isOneRun} then longest_gap_ms
      when ${gap} <= longest_gap_ms then longest_gap_ms - longest_gap_ms / 512
      when longest_gap_ms >= ${sql.lit(maxLongestGapMs)} then longest_gap_ms
      when ${gap} < longest_gap_ms * 3 / 2 then ${gap}
      else longest_gap_ms * 3 / 2 end`
  // A supervisor says nothing about the run of its agent, whose client may send heartbeats as well.
  const ofAgent = (name: string) =>
    sql`case when by_agent = 1 then ${sql.ref(`batch.${name}`)} else ${sql.ref(`instances.${name}`)} end`
  // The goodbye of an agent is none of its supervisor, whose silence would still be reported.
  const isLeaving = sql`(batch.leaving = 2 or batch.leaving = 1 and not ${isSupervised(sql`batch.at`)})`
  const isUnknown = sql`not exists (select 1 from instances where instances.id = batch.id)`
  const isNews = sql`batch.version <= control_version and (applied_version is null or applied_version < batch.version)`
  // Of agent and supervisor one may be ahead and the other not: the claim lasts until the next kill or resume.
  const isClaimOver = sql`(by_agent = 1 and not ${isSupervised(sql`cast(${0} as bigint)`)})`
  const registered = (owner: ReturnType<typeof sql>) =>
    sql`coalesce((select count from instance_counts where instance_counts.owner = ${owner}), 0)`
  const isKeyFull = sql`(allowance is not null and ${registered(sql`batch.owner`)} >= allowance)`
  const text = (query: ReturnType<typeof sql>) => query.compile(db).sql
  return {
    refresh:
      text(sql`update instances set name = ${ofAgent('name')}, boot_id = ${ofAgent('boot_id')}, ${kept}, last_heartbeat_at = batch.at, ${gaps},
        suspected_at = case when liveness = 'offline' then suspected_at end,
        supervised_at = case when batch.supervised = 1 then batch.at else supervised_at end,
        left_at = case when ${isLeaving} then batch.at else left_at end
      from ${rows} as batch where instances.id = batch.id`),
    strangers: text(sql`select batch.id, instances.last_heartbeat_at, instances.boot_id, instances.boots,
        instances.clone_count, instances.clone_reported_at, instances.crash_loop_at,
        instances.agent_type, instances.version, instances.fail_mode, instances.parent_id, batch.parent,
        case when by_agent = 1 and ${isOtherRun} then 1 else 0 end as is_other_run,
        case when ${isOtherParent} then 1 else 0 end as is_other_parent
      from ${dialect.rowsFromJson('', runColumns)} as batch left join instances on instances.id = batch.id
      where instances.id is null or (by_agent = 1 and ${isOtherRun}) or ${isOtherParent}`),
    // One statement for acknowledged versions and for claims of versions never issued: most heartbeats change neither.
    applied: text(sql`update instances set
        applied_version = case when ${isNews} then batch.version else applied_version end,
        applied_at = case when ${isNews} then ${0} else applied_at end,
        last_proven_at = case when ${isNews} then ${provenAt(0)} else last_proven_at end,
        claimed_version = case when batch.version > control_version then batch.version
          when ${isClaimOver} then null else claimed_version end
      from ${dialect.rowsFromJson('', appliedColumns)} as batch
      where instances.id = batch.id
        and (${isNews} or batch.version > control_version or (claimed_version is not null and ${isClaimOver}))
      returning instances.id, instances.control_version, instances.claimed_version,
        case when suspended = 1 and applied_version = control_version and applied_at = ${0} then control_changed_at end
          as confirmed_kill_at`),
    // Otherwise a suspended agent could take a tag by which others are about to be resumed.
    tags: text(sql`update instances set agent_tags = batch.tags
      from ${dialect.rowsFromJson('', { id: 'text', tags: 'text' })} as batch
      where instances.id = batch.id and suspended = 0 and coalesce(agent_tags, '[]') <> batch.tags`),
    // Serializes registrations, so that each process sees the counts of the others.
    lock: text(sql`update instance_counts set count = count where owner = ''`),
    // Applies the limit of each key first, then that of the service.
    register: text(sql`insert into instances (${names}, owner, operator_tags, first_seen_at, last_heartbeat_at, left_at,
        supervised_at, suspended, suspension_reason, control_changed_at, control_version)
      select ${names}, owner, key_tags, ${0}, ${0}, case when leaving > 0 then cast(${0} as bigint) end,
        case when supervised = 1 then cast(${0} as bigint) end,
        case when held_version is null then 0 else 1 end, held_reason,
        case when held_version is not null then cast(${0} as bigint) end, coalesce(held_version,
          (select control_version from deleted_instances where deleted_instances.id = allowed.id), 0)
      from (select mine.*, row_number() over (order by ordinal) as place from (
          select batch.*, row_number() over (partition by owner order by ordinal) as place_of_owner
          from ${newRows} as batch where ${isUnknown}
        ) as mine where allowance is null or place_of_owner <= allowance - ${registered(sql`mine.owner`)}
      ) as allowed where place <= ${0} - ${registered(sql`''`)}
      on conflict (id) do nothing`),
    refused: text(sql`select id, case when ${isKeyFull} then 1 else 0 end as by_key
      from ${newRows} as batch where ${isUnknown}`),
    beyond: text(sql`select id, by_key from (
        select placed.*, row_number() over (partition by by_key order by ordinal) as place from (
          select mine.*, case when allowance is not null and place_of_owner > allowance - ${registered(sql`mine.owner`)}
            then 1 else 0 end as by_key
          from (select batch.*, row_number() over (partition by owner order by ordinal) as place_of_owner
            from ${newRows} as batch where ${isUnknown}) as mine
        ) as placed
      ) as judged where by_key = 1 or place > ${0} - ${registered(sql`''`)}`),
  }
}

const cells = (beat: Beat) => [
  ...traitsOf(beat),
  leavingOf(beat),
  isOfSupervisor(beat) ? 0 : 1,
  isSupervisedBy(beat.beside ?? beat) ? 1 : 0,
]

const traitsOf = ({ heartbeat }: Beat) => [
  heartbeat.instance_id,
  heartbeat.name,
  heartbeat.agent_type ?? null,
  heartbeat.version ?? null,
  heartbeat.fail_mode ?? null,
  heartbeat.boot_id || null,
]

function appliedStatements(texts: HeartbeatStatements, beats: readonly Beat[], now: number): Statement[] {
  const applied = beats.flatMap((beat) => {
    const version = controlVersionOf(beat)
    const by = isOfSupervisor(beat) || beat.beside ? 0 : 1
    return version === undefined ? [] : [[beat.heartbeat.instance_id, version, by]]
  })
  if (applied.length === 0) return []
  return [CompiledQuery.raw(texts.applied, [now, now, now, JSON.stringify(applied), now, now])]
}

/** Returns no statement for heartbeats without tags. Most others carry tags that are stored already. */
function tagStatements(texts: HeartbeatStatements, beats: readonly Beat[]): Statement[] {
  const tagged = beats.flatMap(({ heartbeat: { instance_id, tags } }) =>
    tags === undefined ? [] : [[instance_id, tagsText(tags)]],
  )
  return tagged.length > 0 ? [CompiledQuery.raw(texts.tags, [JSON.stringify(tagged)])] : []
}

/** Returns the claims of versions that were never issued, from the rows of `appliedStatements`. */
const claimsOf = (rows: readonly Row[]): VersionClaim[] =>
  rows.flatMap(({ id, control_version, claimed_version }) =>
    claimed_version === null
      ? []
      : [{ instanceId: String(id), claimed: claimed_version as number, version: control_version as number }],
  )

/** Result of refreshing the instances of a batch. */
interface Refreshed {
  unknown: Set<string>
  claims: VersionClaim[]
  /** Times of the kills that these heartbeats confirmed. */
  confirmedKills: number[]
  /** Instances whose heartbeat is of another run than the previous one. */
  changes: BootChange[]
  /** Instances whose heartbeat names a parent that they do not have. */
  otherParents: OtherParent[]
}

/** Refreshes the registered instances of a batch. */
export async function refreshInstances(
  { batch }: Pick<Database, 'batch'>,
  texts: HeartbeatStatements,
  beats: readonly Beat[],
  now: number,
  also: readonly Statement[] = [],
): Promise<Refreshed> {
  const runs = JSON.stringify(
    beats.map((beat) => {
      const { instance_id, boot_id, agent_type, version, fail_mode } = beat.heartbeat
      const traits = [boot_id || null, agent_type ?? null, version ?? null, fail_mode ?? null]
      return [instance_id, ...traits, isOfSupervisor(beat) ? 0 : 1, parentOf(beat) ?? null]
    }),
  )
  const [strangers, , ...others] = await batch([
    CompiledQuery.raw(texts.strangers, [runs]),
    CompiledQuery.raw(texts.refresh, [now, JSON.stringify(beats.map(cells))]),
    ...appliedStatements(texts, beats, now),
    ...tagStatements(texts, beats),
    ...also,
  ])
  const unknown = new Set<string>()
  const changes: BootChange[] = []
  const otherParents: OtherParent[] = []
  for (const { parent_id: kept, parent, is_other_run, is_other_parent, ...row } of strangers!) {
    if (row.last_heartbeat_at === null) {
      unknown.add(String(row.id))
      continue
    }
    if (is_other_run === 1) changes.push(row as unknown as BootChange)
    if (is_other_parent === 1) otherParents.push({ id: row.id, parent, kept } as OtherParent)
  }
  const rows = others.flat()
  const confirmedKills = rows.flatMap(({ confirmed_kill_at: at }) => (at ? [at as number] : []))
  return { unknown, claims: claimsOf(rows), confirmedKills, changes, otherParents }
}

/** Refused instances by id; `byKey`: because of the limit of the key. */
export type Refused = Map<string, { byKey: boolean }>

/** A new instance that begins suspended. */
interface HeldNewcomer {
  version: number
  reason: string
}

const rowsOf = (beats: readonly Beat[], held?: ReadonlyMap<string, HeldNewcomer>) =>
  JSON.stringify(
    beats.map((beat) => {
      const { owner, max, tags } = beat.registers
      const holding = held?.get(beat.heartbeat.instance_id)
      return [...cells(beat), owner, max, tags, holding?.version ?? null, holding?.reason ?? null]
    }),
  )
const refusedOf = (rows: readonly Row[]): Refused =>
  new Map(rows.map((row) => [row.id as string, { byKey: row.by_key === 1 }]))

/** Finds the unknown instances for which a limit has no room at present, as the registration places them. */
export async function findBeyondLimits(
  { batch }: Pick<Database, 'batch'>,
  texts: HeartbeatStatements,
  beats: readonly Beat[],
  max: number,
): Promise<Refused> {
  const [rows] = await batch([CompiledQuery.raw(texts.beyond, [rowsOf(beats), max])])
  return refusedOf(rows!)
}

/** The stops that hold new instances, for the batch that registers these. */
interface RegistrationHold {
  held: ReadonlyMap<string, HeldNewcomer>
  /** Fails the batch as stale if another stop was requested since. */
  check: Statement
  /** Store the suspensions of the newcomers, and fail the batch as stale unless all of them were registered. */
  statements: readonly Statement[]
}

/**
 * Registers instances up to the limits; resolves with the refused ones, and with those that cannot have the parent that
 * they name. Rejects with DatabaseError, `stale` if the hold is outdated.
 */
export async function registerInstances(
  database: Pick<Database, 'batch' | 'db' | 'dialect'>,
  texts: HeartbeatStatements,
  beats: readonly Beat[],
  { max, now, hold }: { max: number; now: number; hold: RegistrationHold },
): Promise<{ refused: Refused; claims: VersionClaim[]; orphans: string[] }> {
  const rows = rowsOf(beats, hold.held)
  const parents = parentStatements(database, claimsOfParents(beats))
  const [, , , refused, ...others] = await database.batch([
    CompiledQuery.raw(texts.lock, []),
    hold.check,
    CompiledQuery.raw(texts.register, [now, now, now, now, now, rows, max]),
    CompiledQuery.raw(texts.refused, [rows]),
    ...appliedStatements(texts, beats, now),
    ...tagStatements(texts, beats),
    ...parents,
    ...hold.statements,
  ])
  const upToParents = others.slice(0, others.length - hold.statements.length)
  const applied = upToParents.slice(0, upToParents.length - parents.length)
  const orphans = parents.length > 0 ? upToParents.at(-1)!.map(({ id }) => String(id)) : []
  return { refused: refusedOf(refused!), claims: claimsOf(applied.flat()), orphans }
}

/** Reads the control versions that deleted instances had, by id. */
export async function readDeletedVersions(db: Db, ids: readonly string[]): Promise<Map<string, number>> {
  const rows = await db
    .selectFrom('deleted_instances')
    .select(['id', 'control_version'])
    .where('id', 'in', ids)
    .execute()
  return new Map(rows.map((row) => [row.id, row.control_version]))
}
