import type { Config } from '../../config/config.ts'
import { knownEas, knownRegistries } from '../../config/known-chains.ts'

/** The configuration demands the address where it is not known. */
export const identityRegistryOf = ({ trustRegistry, trustChainId }: Config): string =>
  trustRegistry ?? knownRegistries(trustChainId)!.identity

/** The identity registry as registration files and reports name it (CAIP-10). */
export const agentRegistryOf = (config: Config): string => `eip155:${config.trustChainId}:${identityRegistryOf(config)}`

/** The configuration demands the address where it is needed and not known. */
export const reputationRegistryOf = ({ trustReputationRegistry, trustChainId }: Config): string =>
  trustReputationRegistry ?? knownRegistries(trustChainId)!.reputation

/** A contract that may have attestations about this deployment, and its name for what they are about. */
export interface Place {
  sink: 'eas' | 'feedback'
  contract: string
  subject: string
}

/** Which attestations by others are shown. Addresses are in lower case. */
export interface Shown {
  chainId: number
  places: readonly Place[]
  attesters: readonly string[]
}

/**
 * Returns which attestations by others the configuration shows. Feedback is shown once the registry says that the agent is
 * ours: the id of any agent can be configured.
 */
export function shownOthers(config: Config, identity: { agent_id: string; status: string } | undefined): Shown {
  const { trustWallet, trustReputationRegistry, trustChainId: chainId, trustOtherAttesters = [] } = config
  const eas = easOf(config)
  const registry = trustReputationRegistry ?? knownRegistries(chainId)?.reputation
  const places: Place[] = []
  if (eas !== undefined && trustWallet !== undefined)
    places.push({ sink: 'eas', contract: eas.toLowerCase(), subject: trustWallet.toLowerCase() })
  if (registry !== undefined && identity?.status === 'live')
    places.push({ sink: 'feedback', contract: registry.toLowerCase(), subject: identity.agent_id })
  return { chainId, places, attesters: trustOtherAttesters.map((attester) => attester.toLowerCase()) }
}

/** Undefined when the address is neither known nor configured. */
export const easOf = ({ trustEas, trustChainId }: Config): string | undefined => trustEas ?? knownEas(trustChainId)?.[0]

export const schemaRegistryOf = ({ trustSchemaRegistry, trustChainId }: Config): string | undefined =>
  trustSchemaRegistry ?? knownEas(trustChainId)?.[1]

export const unavailable = (what: string) =>
  new Error(`${what} is not known for this chain: set it to the address of the contract.`)
