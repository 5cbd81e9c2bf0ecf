import type { Database } from '../../db/database.ts'
import type { PendingResumes } from '../control/kill-switch.ts'
import { readOwners } from '../instances/control-statements.ts'
import type { SelectedRow } from '../instances/fleet-statements.ts'
import { readAgentOwners } from '../keys/owner-statements.ts'
import { type Hold, type HoldVerdict, mayResume, onSuspend } from '../suspensions/holds.ts'
import { readHeld } from '../suspensions/suspension-statements.ts'
import { readPendingResumes, readTwoPerson } from './queries.ts'

type Reading = Pick<Database, 'db' | 'dialect'>

/** Reads what holds those of the instances that are suspended, by id; `ending`: those that a resume is about to end. */
async function readHolds(
  database: Reading,
  ids: readonly string[],
  ending: ReadonlySet<string> = new Set(),
): Promise<Map<string, Hold & { version: number }>> {
  const held = await readHeld(database, ids)
  const containments = new Set([...held.values()].flatMap(({ containmentId }) => containmentId ?? []))
  const twoPerson = await readTwoPerson(database.db, [...containments])
  return new Map(
    [...held].map(([id, { version, endsAt, containmentId, keyContainmentId, throughId }]) => [
      id,
      {
        version,
        endsAt,
        twoPerson: containmentId !== null && twoPerson.has(containmentId),
        holdsKey: keyContainmentId !== null,
        isEnding: ending.has(id),
        isThrough: throughId !== null,
      },
    ]),
  )
}

/** Returns those whose keys are bound to instances: other keys can resume agents themselves. */
async function withBoundKey({ db }: Reading, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set()
  const bound = await readAgentOwners(db)
  return new Set((await readOwners(db, ids)).flatMap(({ id, owner }) => (bound.has(owner) ? [id] : [])))
}

/**
 * Decides what a fleet stop does to each of the instances that are suspended as read; those that it keeps as they are are
 * missing.
 */
export async function readStopVerdicts(
  database: Reading,
  suspended: readonly Pick<SelectedRow, 'id' | 'control_version'>[],
  twoPerson: boolean,
): Promise<Map<string, Exclude<HoldVerdict, 'keep'>>> {
  if (suspended.length === 0) return new Map()
  const ids = suspended.map(({ id }) => id)
  const asRead = suspended.map((row) => ({ instanceId: row.id, version: row.control_version }))
  // In this order, see PendingResumes.
  const ending = await readPendingResumes(database, asRead)
  const holds = await readHolds(database, ids, ending)
  const requested = { endsAt: null, twoPerson, holdsKey: true }
  // One that was resumed meanwhile is included: the change finds it as it is then.
  const verdicts = ids.map((id) => [id, onSuspend(holds.get(id), requested)] as const)
  const toHold = verdicts.filter(([, verdict]) => verdict === 'hold_key').map(([id]) => id)
  const bound = await withBoundKey(database, toHold)
  return new Map(
    verdicts.flatMap(([id, verdict]) =>
      verdict === 'keep' || (verdict === 'hold_key' && !bound.has(id)) ? [] : [[id, verdict] as const],
    ),
  )
}

/** Fleet resumes that are about to end suspensions: what suspends such an agent once more takes over. */
export const createPendingResumes = (database: Reading): PendingResumes => ({
  find: (suspensions) => readPendingResumes(database, suspensions),
})

/** Whether two operators have to resume any of these instances. */
export async function needTwo(database: Reading, ids: readonly string[]): Promise<boolean> {
  const holds = await readHolds(database, ids)
  return [...holds.values()].some((held) => !mayResume(held, { operators: 1 }))
}
