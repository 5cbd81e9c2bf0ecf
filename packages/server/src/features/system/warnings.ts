import type { Deps } from '../../deps.ts'
import { hasLimitedKey } from '../keys/owner-statements.ts'
import type { RoleTable } from '../people/role-mappings.ts'

/** Returns what of the configuration does not go with what is stored, in sentences that say how to change it. */
export async function readWarnings(
  { config, database, clock }: Pick<Deps, 'config' | 'database' | 'clock'>,
  { roleTable }: { roleTable: Pick<RoleTable, 'read'> },
): Promise<string[]> {
  if (config.streamAuth !== 'none') return []
  const { mappings } = await roleTable.read()
  const hasTeams = mappings.some(({ tags }) => tags !== undefined) || (await hasLimitedKey(database.db, clock.now()))
  return hasTeams
    ? [
        'People or keys are limited to the agents of a team, but /api/stream needs no key and shows the events of all agents: set WARDLINE_STREAM_AUTH=session.',
      ]
    : []
}
