import {
  awaitedStates,
  type CurrentSuspension,
  type SharedFleet,
  type SuspensionState,
  workingStates,
} from '@wardline/contract'
import { isoTime, isoTimeOrNull } from '../../clock.ts'
import type { Point } from '../../config/enforcement-points.ts'
import type { Db } from '../../db/database.ts'
import { enforcingLevers, pointsFor, reachOf } from './enforcing-levers.ts'
import { namesOf, readHeardBy } from './heard-by.ts'
import type { WitnessRow } from './heard-by-statements.ts'
import { isSilent, readSuspensionStates, type SuspensionStates, viewRow } from './instances.ts'
import type { SharedRow } from './queries.ts'
import { readTags } from './tags.ts'

/** An agent as dashboards list it. */
export type ListedAgent = SharedFleet['instances'][number]

const isOneOf = (states: readonly SuspensionState[], state: SuspensionState) => states.includes(state)
export const isAwaited = (state: SuspensionState): boolean => isOneOf(awaitedStates, state)
export const mayWork = (state: SuspensionState): boolean => isOneOf(workingStates, state)

function viewShared(
  row: SharedRow,
  now: number,
  suspension: CurrentSuspension | undefined,
  points: readonly Point[],
  heard: readonly WitnessRow[] | undefined,
): ListedAgent {
  const { control_version: version, applied_version } = row
  const reach = reachOf(row)
  const levers = enforcingLevers(reach, pointsFor(points, reach), now)
  const control = {
    version,
    changed_at: isoTimeOrNull(row.control_changed_at),
    applied_version,
    applied_at: isoTimeOrNull(row.applied_at),
    confirmed: version === 0 || applied_version === version,
  }
  return {
    ...viewRow(row, now),
    tags: reach.tags,
    operator_tags: readTags(row.operator_tags),
    version: row.version,
    fail_mode: row.fail_mode,
    ...(isSilent(row, now) ? { silent: true } : {}),
    suspension: suspension ?? null,
    ...(version === 0 && applied_version === null ? {} : { control }),
    ...(row.last_proven_at === null ? {} : { last_proven_stoppable_at: isoTime(row.last_proven_at) }),
    ...(levers.length > 0 ? { enforcing_levers: levers } : {}),
    ...(heard ? { heard_by: namesOf(heard) } : {}),
  }
}

/** Adds to rows of instances what dashboards show beside them. */
export async function viewAgents(
  db: Db,
  rows: readonly SharedRow[],
  { now, points, suspensionStates }: { now: number; points: readonly Point[]; suspensionStates: SuspensionStates },
): Promise<ListedAgent[]> {
  const ids = rows.map(({ id }) => id)
  const suspensions = await readSuspensionStates(db, rows, suspensionStates)
  const heard = await readHeardBy(db, ids, now)
  return rows.map((row) => viewShared(row, now, suspensions.get(row.id), points, heard.get(row.id)))
}
