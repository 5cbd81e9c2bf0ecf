import type { CurrentSuspension, Suspension, SuspensionCounts, SuspensionStage } from '@wardline/contract'
import { limits, suspensionStages, suspensionStates } from '@wardline/contract'
import { dayMs, isoTime, isoTimeOrNull } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { Team } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { unknownInstance } from '../../errors.ts'
import { percentile } from '../../percentile.ts'
import type { KeyNames } from '../audit/audit.ts'
import { type CallRow, readCalls, readUnenforced } from '../enforcement/call-statements.ts'
import type { Enforcement } from '../enforcement/enforcement.ts'
import { viewCall } from '../enforcement/views.ts'
import { eventsGoneBefore } from '../events/retention.ts'
import { readControl } from '../instances/control-statements.ts'
import type { SuspensionStates } from '../instances/instances.ts'
import { type SuspensionSettings, settingsOf, sinceOf, suspensionState } from './states.ts'
import { deleteEndedBefore } from './suspension-statements.ts'
import { readLasting, readRecent, readSuspensions, type SuspensionRow } from './watch-statements.ts'

/** Instances per query. */
const pageIds = 1_000

/** Reads the states of suspended instances, for lists of instances. */
export function createSuspensionStates(
  { config }: Pick<Deps, 'config'>,
  { enforcement }: { enforcement: Pick<Enforcement, 'points'> },
): SuspensionStates {
  const settings = settingsOf(config)
  const points = enforcement.points.map(({ name }) => name)
  return {
    async read(db, ids) {
      const found = new Map<string, CurrentSuspension>()
      for (let first = 0; first < ids.length; first += pageIds) {
        const rows = await readLasting(db, ids.slice(first, first + pageIds))
        const unenforced = await readUnenforced(
          db,
          points,
          rows.map(({ instance_id }) => instance_id),
        )
        for (const row of rows) {
          const state = suspensionState(row, unenforced.has(`${row.instance_id} ${row.version}`))
          found.set(row.instance_id, { state, since: isoTime(sinceOf(row, settings)) })
        }
      }
      return found
    },
  }
}

/** A call to a point that is no longer configured is shown, but not awaited. */
const isAwaited = (call: CallRow, points: ReadonlySet<string>) =>
  call.confirmed_at === null && call.superseded_at === null && points.has(call.point)

function viewSuspension(
  row: SuspensionRow,
  names: ReadonlyMap<string, string>,
  calls: readonly CallRow[],
  points: ReadonlySet<string>,
): Suspension {
  return {
    version: row.version,
    state: suspensionState(
      row,
      calls.some((call) => isAwaited(call, points)),
    ),
    reason: row.reason,
    by: row.actor,
    by_name: row.actor === null ? null : (names.get(row.actor) ?? null),
    requested_at: isoTime(row.requested_at),
    stored_at: isoTimeOrNull(row.stored_at),
    published_at: isoTimeOrNull(row.published_at),
    published_by: row.published_by,
    delivered_at: isoTimeOrNull(row.delivered_at),
    delivered_by: row.delivered_by,
    delivered_process: row.delivered_process,
    acknowledged_at: isoTimeOrNull(row.acknowledged_at),
    acknowledged_by: row.acknowledged_by,
    can_acknowledge: row.can_acknowledge === 1,
    silent_at: isoTimeOrNull(row.silent_at),
    quiet_at: isoTimeOrNull(row.quiet_at),
    enforced_at: isoTimeOrNull(row.enforced_at),
    enforced_by: row.enforced_by,
    held_processes: row.held_processes,
    left_processes: row.left_processes,
    ends_at: isoTimeOrNull(row.ends_at),
    resumed_at: isoTimeOrNull(row.resumed_at),
    breaches: row.breaches,
    first_breach_at: isoTimeOrNull(row.first_breach_at),
    last_breach_at: isoTimeOrNull(row.last_breach_at),
    rule_id: row.rule_id,
    event_id: row.event_id,
    containment_id: row.containment_id,
    through: row.through_id,
    enforcement: calls.map((call) => viewCall(call, row.resumed_at !== null)),
  }
}

/** Lists the newest suspensions of an instance. Throws AppError `not_found`. */
export async function listSuspensions(
  db: Db,
  instanceId: string,
  { keyNames: keys, enforcement }: { keyNames: KeyNames; enforcement: Pick<Enforcement, 'points'> },
): Promise<{ suspensions: Suspension[] }> {
  if (!(await readControl(db, instanceId))) throw unknownInstance(instanceId)
  const rows = await readSuspensions(db, instanceId, limits.listedSuspensions)
  const names = await keys.names(
    db,
    rows.flatMap(({ actor }) => actor ?? []),
  )
  const calls = rows.length === 0 ? [] : await readCalls(db, instanceId, rows.at(-1)!.version)
  const byVersion = Map.groupBy(calls, ({ version }) => version)
  const points = new Set(enforcement.points.map(({ name }) => name))
  return {
    suspensions: rows.map((row) => viewSuspension(row, names, byVersion.get(row.version) ?? [], points)),
  }
}

type Recent = Awaited<ReturnType<typeof readRecent>>[number]

const stageColumns: Record<SuspensionStage, keyof Recent> = {
  stored: 'stored_at',
  published: 'published_at',
  delivered: 'delivered_at',
  acknowledged: 'acknowledged_at',
  enforced: 'enforced_at',
  silent: 'silent_at',
}

/** Returns the durations of the stages, over the suspensions of the last 24 hours. */
export async function viewFigures(
  db: Db,
  now: number,
  {
    settings,
    enforcement,
    team,
  }: { settings: SuspensionSettings; enforcement: Pick<Enforcement, 'points'>; team: Team },
): Promise<SuspensionCounts> {
  const from = now - dayMs
  const rows = await readRecent(db, from, limits.measuredSuspensions, team)
  const suspended = rows.filter(({ resumed_at }) => resumed_at === null)
  const points = enforcement.points.map(({ name }) => name)
  const unenforced = new Set<string>()
  for (let first = 0; first < suspended.length && points.length > 0; first += pageIds) {
    const ids = suspended.slice(first, first + pageIds).map(({ instance_id }) => instance_id)
    for (const one of await readUnenforced(db, points, ids)) unenforced.add(one)
  }
  const lasting = suspended.map((row) => suspensionState(row, unenforced.has(`${row.instance_id} ${row.version}`)))
  return {
    from: isoTime(from),
    suspensions: rows.length,
    stages: suspensionStages.map((stage) => {
      const column = stageColumns[stage]
      const times = rows.flatMap((row) => (row[column] === null ? [] : Number(row[column]) - row.requested_at))
      times.sort((a, b) => a - b)
      const [p50_ms, p95_ms, p99_ms] = [0.5, 0.95, 0.99].map((share) => percentile(times, share))
      return { stage, measured: times.length, p50_ms: p50_ms!, p95_ms: p95_ms!, p99_ms: p99_ms! }
    }),
    states: suspensionStates
      .map((state) => ({ state, count: lasting.filter((found) => found === state).length }))
      .filter(({ count }) => count > 0),
    settings: { silence_seconds: settings.silenceMs / 1_000, acknowledge_seconds: settings.acknowledgeMs / 1_000 },
  }
}

/** Deletes ended suspensions once the events of their time were deleted by retention. */
export async function forgetSuspensions(deps: Deps, stopping?: AbortSignal): Promise<void> {
  await deleteEndedBefore(deps.database.db, await eventsGoneBefore(deps), stopping)
}
