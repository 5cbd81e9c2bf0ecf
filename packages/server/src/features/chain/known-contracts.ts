import type { Config } from '../../config/config.ts'

// Identity registries of ERC-8004 are singletons: one address on main networks, one on test networks.
const mainRegistry = '0x8004A169FB4a3325136EB29fA0ceB6D2e539a432'
const testRegistry = '0x8004A818BFB912233c491871b3d84c89A494BD9e'
const mainReputation = '0x8004BAa17C55a88189AE136b182e5fdA19dE9b63'
const testReputation = '0x8004B663056A597Dffe9eCcC1965A193B7388713'
const testChains = new Set([84532, 11155111])

/** OP Stack rollups have EAS at the same addresses: https://docs.attest.org/docs/quick--start/contracts */
const easOfBase = '0x4200000000000000000000000000000000000021'
const schemaRegistryOfBase = '0x4200000000000000000000000000000000000020'
const baseChains = new Set([8453, 84532])

const explorers: Record<number, string> = {
  1: 'https://etherscan.io',
  10: 'https://optimistic.etherscan.io',
  56: 'https://bscscan.com',
  100: 'https://gnosisscan.io',
  137: 'https://polygonscan.com',
  8453: 'https://basescan.org',
  42161: 'https://arbiscan.io',
  43114: 'https://snowtrace.io',
  84532: 'https://sepolia.basescan.org',
  11155111: 'https://sepolia.etherscan.io',
}
/** Looks up addresses on any chain. */
const anyExplorer = 'https://blockscan.com'

export const explorerOf = (chainId: number): string => explorers[chainId] ?? anyExplorer

export const transactionUrl = (chainId: number, hash: string): string => `${explorerOf(chainId)}/tx/${hash}`

export const identityRegistryOf = ({ trustRegistry, trustChainId }: Config): string =>
  trustRegistry ?? (testChains.has(trustChainId) ? testRegistry : mainRegistry)

export const knownReputation = (chainId: number): string => (testChains.has(chainId) ? testReputation : mainReputation)

export const reputationRegistryOf = ({ trustReputationRegistry, trustChainId }: Config): string =>
  trustReputationRegistry ?? knownReputation(trustChainId)

/** Undefined for chains whose EAS address is not listed here. */
export const knownEas = (chainId: number): string | undefined => (baseChains.has(chainId) ? easOfBase : undefined)

/** Undefined when the address is neither known nor configured. */
export const easOf = ({ trustEas, trustChainId }: Config): string | undefined => trustEas ?? knownEas(trustChainId)

export const unavailable = (what: string) =>
  new Error(`${what} is not known for this chain: set it to the address of the contract.`)

export const schemaRegistryOf = ({ trustSchemaRegistry, trustChainId }: Config): string | undefined =>
  trustSchemaRegistry ?? (baseChains.has(trustChainId) ? schemaRegistryOfBase : undefined)
