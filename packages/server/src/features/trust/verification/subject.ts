import type { Config } from '../../../config/config.ts'
import { agentRegistryOf } from '../../chain/known-contracts.ts'
import { agentIdOf, type KnownIdentity } from '../identity.ts'
import type { VerifiedSubject } from './verification-queries.ts'

/**
 * Returns the on-chain agent if a node can be asked about it. Without one it is the configured address of the service,
 * and no wallet: nothing says whose it is.
 */
export function verifiedSubject(config: Config, known: KnownIdentity): VerifiedSubject {
  const { publicUrl, trustRpcUrl, trustChainId: chain_id } = config
  const agentId = trustRpcUrl === undefined ? undefined : agentIdOf(config, known)
  if (agentId !== undefined) return { chain_id, agent_registry: agentRegistryOf(config), agent_id: agentId, url: null }
  const url = publicUrl === undefined ? null : `${publicUrl.replace(/\/$/, '')}/trust`
  return { chain_id, agent_registry: null, agent_id: null, url }
}
