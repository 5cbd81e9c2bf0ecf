import type { TrustSummary } from '@wardline/contract'
import type { Config } from '../../config.ts'

// Identity registries of ERC-8004 are singletons: one address on main networks, one on test networks.
const mainRegistry = '0x8004A169FB4a3325136EB29fA0ceB6D2e539a432'
const testRegistry = '0x8004A818BFB912233c491871b3d84c89A494BD9e'

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
const testChains = new Set([84532, 11155111])
/** Finds an address on any chain. */
const anyExplorer = 'https://blockscan.com'

/** The on-chain identity (https://eips.ethereum.org/EIPS/eip-8004) from the configuration. */
export function identityOf(config: Config): TrustSummary['identity'] {
  const { trustChainId: chainId, trustAgentId: agentId, trustSlug, trustName, trustWallet } = config
  const registry = config.trustRegistry ?? (testChains.has(chainId) ? testRegistry : mainRegistry)
  const registered = agentId !== undefined
  return {
    registered,
    slug: trustSlug,
    name: trustName,
    agent_id: agentId ?? null,
    agent_registry: registered ? `eip155:${chainId}:${registry}` : null,
    wallet_address: trustWallet ?? null,
    registry_explorer_url: `${explorers[chainId] ?? anyExplorer}/address/${registry}`,
    register_tx_url: null,
    status: registered ? 'live' : 'pending',
  }
}

/**
 * The status words are settings with defaults that promise something; the labels, which strangers read, state only what
 * is configured and stored.
 */
export function chainStatus(config: Config): TrustSummary['chain'] {
  const hasIdentity = config.trustAgentId !== undefined
  return {
    erc8004_status: hasIdentity ? 'live' : config.trustErc8004Status,
    erc8004_label: hasIdentity ? 'ERC-8004 identity registered' : 'No on-chain identity configured',
    erc8126_status: config.trustErc8126Status,
    erc8126_label: 'No ERC-8126 verification stored',
  }
}
