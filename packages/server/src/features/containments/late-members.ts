import type { AgentSelector } from '@wardline/contract'
import { minuteMs } from '../../clock.ts'
import type { Statement } from '../../db/database.ts'
import type { Team } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { lockRegistrations, readOwnersOf, readRegistered, registeredSince } from '../instances/fleet-statements.ts'
import { readAgentOwners } from '../keys/owner-statements.ts'
import { lateStatements } from './queries.ts'

/** A registration takes its time before it waits for its transaction, and clocks of processes differ. */
const earlierMs = minuteMs

/** Statements of the batch that stores a containment. */
interface Late {
  /** First: registrations wait until the batch ends. */
  lock: Statement
  /** Adds those that registered meanwhile as one more part; follows the containment and its other parts. */
  statements(containmentId: string, position: number): Statement[]
}

/**
 * Finds agents that register while a stop is requested: neither its selection nor their registration can see the other.
 * Of a selection by tags or ids, and of a team, these are the agents of its keys. The batch itself reads them, so that a
 * stop never loses to registrations, however many there are. Begin before the selection.
 */
export async function watchRegistrations({ database }: Deps, requestedAt: number, team: Team) {
  const since = requestedAt - earlierMs
  const before = await readRegistered(database.db, since)
  return async (selector: AgentSelector, selected: readonly string[]): Promise<Late> => {
    const owners = selector.all && !team ? undefined : await agentOwners(database, selected)
    const known = new Set([...before, ...selected])
    const except = (await readRegistered(database.db, since)).filter((id) => known.has(id))
    const late = registeredSince(database, since, { except, owners })
    return {
      lock: lockRegistrations(database),
      statements: (containmentId, position) => lateStatements(database, { containmentId, position }, late),
    }
  }
}

/** Returns the owners of these agents that are keys of scope agent. */
async function agentOwners(database: Deps['database'], ids: readonly string[]): Promise<string[]> {
  const bound = await readAgentOwners(database.db)
  return (await readOwnersOf(database, ids)).filter((owner) => bound.has(owner))
}
