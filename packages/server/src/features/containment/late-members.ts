import type { ContainmentSelector } from '@wardline/contract'
import { minuteMs } from '../../clock.ts'
import type { Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import {
  checkRegistrations,
  isRegistrationKnown,
  lockRegistrations,
  type Registered,
  readOwnersOf,
  readRegistered,
} from '../instances/fleet-statements.ts'
import { readAgentOwners } from '../keys/owner-statements.ts'
import type { FleetMember } from '../kill-switch/fleet-change.ts'

/** A registration takes its time before it waits for its transaction, and clocks of processes differ. */
const earlierMs = minuteMs

interface Late {
  members: FleetMember[]
  /** First statements of the batch that stores the containment: fail it as stale if another instance registered. */
  checks: Statement[]
}

/**
 * Finds agents that register while a stop is requested: neither its selection nor their registration can see the other.
 * Of a selection by tags or ids these are the agents of its keys. Begin before the selection.
 */
export async function watchRegistrations({ database }: Deps, requestedAt: number) {
  const since = requestedAt - earlierMs
  const before = new Set((await readRegistered(database.db, since)).map(({ id }) => id))
  return async (selector: ContainmentSelector, selected: readonly string[]): Promise<Late> => {
    const registered = await readRegistered(database.db, since)
    const known = new Set([...before, ...selected])
    const strangers = registered.filter(({ id, suspended }) => suspended === 0 && !known.has(id))
    const late = selector.all ? strangers : await ofSameKeys(database, strangers, selected)
    const condition = isRegistrationKnown(
      database,
      since,
      registered.map(({ id }) => id),
    )
    return {
      members: late.map(({ id, control_version }) => [id, control_version]),
      checks: [lockRegistrations(database), checkRegistrations(database, condition)],
    }
  }
}

/** Returns those that registered with a key of scope agent that also registered one of the selected agents. */
async function ofSameKeys(
  database: Deps['database'],
  strangers: readonly Registered[],
  selected: readonly string[],
): Promise<readonly Registered[]> {
  if (strangers.length === 0) return strangers
  const bound = await readAgentOwners(database.db)
  const owners = new Set((await readOwnersOf(database, selected)).filter((owner) => bound.has(owner)))
  return strangers.filter(({ owner }) => owner !== null && owners.has(owner))
}
