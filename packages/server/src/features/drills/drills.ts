import { type AgentSelector, type Drill, type DrillList, type DrillSummary, limits } from '@wardline/contract'
import { dayMs, isoTime, isoTimeOrNull } from '../../clock.ts'
import { readTeamText, type Team, teamText } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { AppError, unknownId } from '../../errors.ts'
import { uuidV7 } from '../../ids.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import { selectAgents } from '../containments/selection.ts'
import {
  agentsStatement,
  type DrillRow,
  deleteOldAsks,
  deleteOldDrills,
  drillStatement,
  findDrill,
  markReady,
  readDrills,
  readRunning,
} from './queries.ts'
import { countAsks, type DrillCounts, readAllAsks } from './report.ts'

/** Maximum running drills: each is checked twice a second, and further ones would give the same results. */
const maxRunning = 5
const retryAfterSeconds = 30
const pageRows = 1_000
/** The schedule asks at least once a week. */
const keepScheduledMs = 30 * dayMs
/** Ids of the selector repeated in a report. */
const shownInstances = 100

/** Returns the ids of the selector, sorted. Throws AppError `invalid` or `conflict`. */
async function selectIds(deps: Deps, selector: AgentSelector, team: Team): Promise<string[]> {
  const rows = await selectAgents(deps, undefined, selector, { team })
  if (rows.length === 0) throw new AppError('conflict', 'The selector matches no agent.')
  if (rows.length <= limits.drillAgents) return rows.map(({ id }) => id)
  const rule = `A drill takes at most ${limits.drillAgents} agents, and the selector matches ${rows.length}`
  throw new AppError('invalid', `${rule}: select fewer by tags.`)
}

function summaryOf(
  row: DrillRow,
  { missing: _missing, supervisors: _supervisors, silent: _silent, ...counts }: DrillCounts,
): DrillSummary {
  const selector = JSON.parse(row.selector) as AgentSelector
  const { instances } = selector
  return {
    id: row.id,
    state: row.completed_at === null ? 'running' : 'complete',
    selector: instances ? { ...selector, instances: instances.slice(0, shownInstances) } : selector,
    tags_scope: readTeamText(row.team),
    by: row.actor,
    requested_at: isoTime(row.requested_at),
    completed_at: isoTimeOrNull(row.completed_at),
    selected: row.selected,
    ...counts,
  }
}

/** What reports of earlier versions do not say. */
const leverless = {
  ...{ supervisors: [], supervisor_count: 0, incomplete_count: 0, silent: [], silent_count: 0 },
  ...{ model_count: 0, model_calls: 0, model_ms: null },
}

/** Returns the stored counts of a complete drill, or counts those of a running one. */
async function countsOf(deps: Deps, row: DrillRow): Promise<DrillCounts> {
  if (row.report !== null) return { ...leverless, ...(JSON.parse(row.report) as DrillCounts) }
  return countAsks(deps.config, row, await readAllAsks(deps, row), deps.clock.now())
}

async function view(deps: Deps, row: DrillRow): Promise<Drill> {
  const counts = await countsOf(deps, row)
  const { missing, supervisors, silent } = counts
  return { ...summaryOf(row, counts), missing, supervisors, silent }
}

/** Starts a drill, which is sent by the processes that hold the agents' streams. Throws AppError. */
export async function startDrill(
  deps: Deps,
  selector: AgentSelector,
  { team, actor }: { team: Team; actor: Actor },
): Promise<Drill> {
  const { database, clock } = deps
  if ((await readRunning(database.db)).length >= maxRunning) {
    const fault = `${maxRunning} drills are running: wait until one is complete.`
    throw new AppError('overloaded', fault, retryAfterSeconds)
  }
  const ids = await selectIds(deps, selector, team)
  const now = clock.now()
  const id = uuidV7(now)
  const row = {
    id,
    actor: actor.keyId,
    selector: JSON.stringify(selector),
    selected: ids.length,
    requested_at: now,
    team: teamText(team),
  }
  const after = { id, ...(team ? { tags_scope: [...team] } : {}), selected: ids.length }
  const action = { action: 'drill.start', target: null, before: null, after }
  await database.batch([drillStatement(database.db, row), ...auditStatements(database, actor, action, now)])
  // In several transactions, so that a kill does not wait until a large fleet is stored.
  for (let start = 0; start < ids.length; start += pageRows) {
    await database.batch([agentsStatement(database, id, ids.slice(start, start + pageRows))])
  }
  await markReady(database.db, id, clock.now())
  deps.bus.publishNotice({ action: 'drill' })
  deps.log.info({ drill: id, selected: ids.length, actor: actor.keyId }, 'drill started')
  return viewDrill(deps, id, team)
}

/** Throws AppError `not_found`. */
export async function viewDrill(deps: Deps, id: string, team: Team): Promise<Drill> {
  const row = await findDrill(deps.database.db, id, team)
  if (!row) throw unknownId('drill', id, 'GET /api/drills')
  return view(deps, row)
}

/** Lists the newest drills. */
export async function listDrills(deps: Deps, limit: number, team: Team): Promise<DrillList> {
  const drills: DrillSummary[] = []
  for (const row of await readDrills(deps.database.db, limit, team)) {
    drills.push(summaryOf(row, await countsOf(deps, row)))
  }
  return { drills }
}

/** Deletes drills beyond the newest ones, and questions that are no longer needed. */
export async function forgetDrills({ database: { db }, clock }: Deps, stopping?: AbortSignal): Promise<void> {
  await deleteOldAsks(db, clock.now() - keepScheduledMs, stopping)
  await deleteOldDrills(db, limits.drills)
}
