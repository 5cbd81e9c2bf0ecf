import { type Drill, limits, offlineAfterMs } from '@wardline/contract'
import type { Config } from '../../config/config.ts'
import { pagesOf } from '../../db/portions.ts'
import type { Deps } from '../../deps.ts'
import { percentile } from '../../percentile.ts'
import type { OpenStreams } from '../control/open-streams.ts'
import { readHeartbeats } from '../instances/drill-statements.ts'
import { modelForMs } from '../instances/enforcing-levers.ts'
import {
  type AskRow,
  completeDrill,
  type DrillRow,
  giveUpAsks,
  isModelPending,
  isPending,
  type NotAskedReason,
  readAsks,
  readRunning,
  readUnasked,
} from './queries.ts'

export type DrillCounts = Pick<
  Drill,
  | 'asked'
  | 'answered'
  | 'missing'
  | 'missing_count'
  | 'supervisors'
  | 'supervisor_count'
  | 'incomplete_count'
  | 'model_count'
  | 'model_calls'
  | 'model_ms'
  | 'silent'
  | 'silent_count'
  | 'p50_ms'
  | 'p99_ms'
>

/** Every process checks several times within this period: an agent not sent the drill by then has no suitable stream. */
const askWithinMs = 3_000
/** Answers that arrived in time are on disk this long after the deadline. */
const settleMs = 3_000
/** After this time the process that stores the agents counts as gone. */
const recordWithinMs = 60_000
/** A gateway that hears nothing over the bus answers within a second, the time of a look at the database added. */
const gatewaysWithinMs = 2_000
const pageRows = 1_000

/** Counts the results of a drill. An agent that may still answer does not count as missing, nor do its levers as silent. */
export function countAsks(
  { drillAnswerSeconds }: Pick<Config, 'drillAnswerSeconds'>,
  { requested_at, ready_at }: Pick<DrillRow, 'requested_at' | 'ready_at'>,
  asks: readonly AskRow[],
  now: number,
): DrillCounts {
  const withinMs = drillAnswerSeconds * 1_000
  const startedAt = ready_at ?? requested_at
  const times: number[] = []
  const silent: Drill['missing'] = []
  const notAsked: Drill['missing'] = []
  const complete: Drill['supervisors'] = []
  const incomplete: Drill['supervisors'] = []
  const levers: Drill['silent'] = []
  const unanswered: Drill['silent'] = []
  let asked = 0
  let models = 0
  let calls = 0
  let modelAt = 0
  for (const row of asks) {
    const { instance_id, asked_at, answered_at, processes, unreachable, model_at, reason } = row
    const isLate = (at: number | null) => at !== null && now - at >= withinMs
    if (processes === null && isLate(asked_at) && row.is_supervised) levers.push({ instance_id, lever: 'process' })
    if (model_at === null && isLate(startedAt) && row.is_caller) unanswered.push({ instance_id, lever: 'model' })
    if (model_at !== null) {
      models += 1
      calls += row.model_calls ?? 0
      modelAt = Math.max(modelAt, model_at)
    }
    if (processes !== null && unreachable !== null)
      (unreachable > 0 ? incomplete : complete).push({ instance_id, processes, unreachable })
    if (asked_at !== null) asked += 1
    if (asked_at !== null && answered_at !== null) times.push(Math.max(0, answered_at - asked_at))
    else if (isLate(asked_at)) silent.push({ instance_id, reason: 'no_answer' })
    else if (reason !== null) notAsked.push({ instance_id, reason })
  }
  // A gateway answers for all agents: one that it did not know of called its first model meanwhile.
  if (models === 0) levers.push(...unanswered)
  times.sort((one, other) => one - other)
  return {
    asked,
    answered: times.length,
    missing: [...silent, ...notAsked].slice(0, limits.drillMissing),
    missing_count: silent.length + notAsked.length,
    supervisors: [...incomplete, ...complete].slice(0, limits.drillMissing),
    supervisor_count: incomplete.length + complete.length,
    incomplete_count: incomplete.length,
    model_count: models,
    model_calls: calls,
    model_ms: models === 0 ? null : Math.max(0, modelAt - startedAt),
    silent: levers.slice(0, limits.drillMissing),
    silent_count: levers.length,
    p50_ms: percentile(times, 0.5),
    p99_ms: percentile(times, 0.99),
  }
}

/** Every question of a drill. */
export async function readAllAsks({ database }: Pick<Deps, 'database'>, drill: DrillRow): Promise<AskRow[]> {
  const asks: AskRow[] = []
  const startedAt = drill.ready_at ?? drill.requested_at
  const since = { supervised: startedAt - offlineAfterMs, called: startedAt - modelForMs }
  const pages = pagesOf(pageRows, (last?: AskRow) =>
    database.scan('drills', (db) =>
      readAsks(db, { drillId: drill.id, since, after: last?.instance_id ?? '' }, pageRows),
    ),
  )
  for await (const page of pages) asks.push(...page)
  return asks
}

/** Stores why agents of a drill could not be sent it. */
async function giveUp({ database }: Deps, openStreams: OpenStreams, drillId: string, now: number): Promise<void> {
  for await (const ids of pagesOf(pageRows, (last?: string) =>
    readUnasked(database.db, drillId, last ?? '', pageRows),
  )) {
    const heartbeats = await readHeartbeats(database, ids)
    const streams = new Map((await openStreams.find(ids)).map((one) => [one.instanceId, one.understands]))
    const reasonOf = (id: string): NotAskedReason => {
      const understands = streams.get(id)
      if (understands) return understands.includes('drill') ? 'not_sent' : 'does_not_understand'
      return now - (heartbeats.get(id) ?? 0) > offlineAfterMs ? 'offline' : 'no_control_stream'
    }
    await giveUpAsks(
      database,
      drillId,
      ids.map((id) => [id, reasonOf(id)]),
    )
  }
}

async function finish(deps: Deps, openStreams: OpenStreams, drill: DrillRow, now: number): Promise<void> {
  const { id, requested_at, ready_at } = drill
  const since = ready_at ?? (now - requested_at >= recordWithinMs ? requested_at : undefined)
  if (since === undefined) return
  if (now - since >= askWithinMs) await giveUp(deps, openStreams, id, now)
  const withinMs = deps.config.drillAnswerSeconds * 1_000
  const models = { calledSince: since - modelForMs, answeredSince: now - gatewaysWithinMs }
  if (now - since < withinMs && (await isModelPending(deps.database.db, id, models))) return
  const askedSince = now - withinMs - settleMs
  if (await isPending(deps.database.db, id, { askedSince, supervisedSince: now - offlineAfterMs })) return
  const counts = countAsks(deps.config, drill, await readAllAsks(deps, drill), now)
  if (!(await completeDrill(deps.database.db, id, JSON.stringify(counts), now))) return
  const { asked, answered, missing_count: missing } = counts
  deps.log.info({ drill: id, asked, answered, missing }, 'drill complete')
}

/** Completes drills whose agents have all answered or timed out. Any process may do it. */
export async function finishDrills(deps: Deps, openStreams: OpenStreams): Promise<void> {
  const now = deps.clock.now()
  for (const drill of await readRunning(deps.database.db)) await finish(deps, openStreams, drill, now)
}
