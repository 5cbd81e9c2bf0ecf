import type { Database } from '../../db/database.ts'
import { type Hold, mayResume, onSuspend } from '../kill-switch/holds.ts'
import { readHeld } from '../kill-switch/suspension-statements.ts'
import { readTwoPerson } from './containment-queries.ts'

type Reading = Pick<Database, 'db' | 'dialect'>

/** Reads what holds those of the instances that are suspended, by id. */
async function readHolds(database: Reading, ids: readonly string[]): Promise<Map<string, Hold & { version: number }>> {
  const held = await readHeld(database, ids)
  const containments = new Set([...held.values()].flatMap(({ containmentId }) => containmentId ?? []))
  const twoPerson = await readTwoPerson(database.db, [...containments])
  return new Map(
    [...held].map(([id, { version, endsAt, containmentId }]) => [
      id,
      { version, endsAt, twoPerson: containmentId !== null && twoPerson.has(containmentId) },
    ]),
  )
}

/** Returns those of the suspended instances that a fleet stop takes over. */
export async function readTakenOver(
  database: Reading,
  ids: readonly string[],
  twoPerson: boolean,
): Promise<Set<string>> {
  const holds = await readHolds(database, ids)
  const requested = { endsAt: null, twoPerson }
  // One that was resumed meanwhile is included: the change finds it as it is then.
  return new Set(ids.filter((id) => onSuspend(holds.get(id), requested) !== 'keep'))
}

/** Whether two operators have to resume any of these instances. */
export async function needTwo(database: Reading, ids: readonly string[]): Promise<boolean> {
  const holds = await readHolds(database, ids)
  return [...holds.values()].some((held) => !mayResume(held, { operators: 1 }))
}
