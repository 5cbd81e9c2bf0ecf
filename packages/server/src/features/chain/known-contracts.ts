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

/** Undefined when the address is neither known nor configured. */
export const easOf = ({ trustEas, trustChainId }: Config): string | undefined => trustEas ?? knownEas(trustChainId)?.[0]

export const schemaRegistryOf = ({ trustSchemaRegistry, trustChainId }: Config): string | undefined =>
  trustSchemaRegistry ?? knownEas(trustChainId)?.[1]

export const unavailable = (what: string) =>
  new Error(`${what} is not known for this chain: set it to the address of the contract.`)
