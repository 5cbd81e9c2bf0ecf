import type { Deps } from '../../deps.ts'
import { readIdentity } from './chain-statements.ts'
import { identityRegistryOf } from './known-contracts.ts'

/** Returns the identity read from the chain, unless it was read for an earlier configuration. */
export async function readKnownIdentity({ config, database }: Pick<Deps, 'config' | 'database'>) {
  if (config.trustRpcUrl === undefined) return undefined
  const known = await readIdentity(database.db)
  const isCurrent =
    known?.chain_id === config.trustChainId &&
    known.registry === identityRegistryOf(config) &&
    (config.trustAgentId ?? known.agent_id) === known.agent_id
  return isCurrent ? known : undefined
}
