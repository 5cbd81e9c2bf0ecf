import type { Alert } from '@wardline/contract'
import type { Db } from '../../db/database.ts'
import type { Team } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import { keyNames } from '../keys/key-names.ts'
import { findOperators } from '../keys/operators.ts'
import type { Changing } from './comments.ts'

/** Stands for the caller in requests, and for nobody in filters. */
const self = 'me'
const nobody = 'none'

/** Returns the filter with the id of whom `assigned` means, null = nobody, and the team of the caller. */
export function filterFor<Filter extends { assigned?: string }>(
  { assigned, ...filter }: Filter,
  { registers, team }: Principal,
): Omit<Filter, 'assigned'> & { assignee?: string | null; team: Team } {
  if (assigned === undefined) return { ...filter, team }
  return { ...filter, team, assignee: assigned === self ? registers.owner : assigned === nobody ? null : assigned }
}

/** Returns the id of the person, or of the first key in the rotation chain, that is meant. Throws AppError `invalid`. */
export async function findAssignee(
  { config, database: { db }, principal, now }: Changing,
  given: string,
): Promise<string> {
  if (given === self) return principal.registers.owner
  const operators = await findOperators({ config }, db, await keyNames.called(db, given), now)
  const meant = new Set(operators.values())
  // An id goes first: a name at a provider may look like one.
  const byId = operators.get(given)
  const [only] = byId === undefined ? meant : [byId]
  if (only === undefined) {
    throw new AppError(
      'invalid',
      'assignee must be `me`, or the id, name or mail address of a person or key that may operate; GET /api/assignees lists them.',
    )
  }
  if (byId === undefined && meant.size > 1) {
    throw new AppError('invalid', 'assignee means several people or keys: give an id; GET /api/assignees lists them.')
  }
  return only
}

/** Returns what readers see of assignees, by their ids. */
export async function describeAssignees(
  deps: Pick<Deps, 'config'>,
  db: Db,
  assignees: readonly (string | null)[],
  now: number,
): Promise<(assignee: string | null) => Pick<Alert, 'assignee' | 'assignee_name' | 'assignee_ended'>> {
  const ids = [...new Set(assignees.flatMap((assignee) => assignee ?? []))]
  const names = ids.length === 0 ? new Map<string, string>() : await keyNames.names(db, ids)
  const operators = await findOperators(deps, db, ids, now)
  return (assignee) => ({
    assignee,
    assignee_name: assignee === null ? null : (names.get(assignee) ?? assignee),
    assignee_ended: assignee !== null && !operators.has(assignee),
  })
}
