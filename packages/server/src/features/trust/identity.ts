import type { TrustSummary } from '@wardline/contract'
import type { Config } from '../../config/config.ts'
import { networkOf, transactionUrl } from '../../config/known-chains.ts'
import { agentRegistryOf, identityRegistryOf } from '../chain/known-contracts.ts'
import type { readKnownIdentity } from '../chain/known-identity.ts'

type Identity = TrustSummary['identity']
export type KnownIdentity = Awaited<ReturnType<typeof readKnownIdentity>>

/** Returns the number of the agent: the configured one, else the one that the service registered. */
export const agentIdOf = ({ trustAgentId }: Config, known: KnownIdentity): string | undefined =>
  trustAgentId ?? known?.agent_id

/**
 * Returns the on-chain identity (https://eips.ethereum.org/EIPS/eip-8004): as read from the chain if an RPC is
 * configured, else as the operator configured it.
 */
export function identityOf(config: Config, known?: KnownIdentity): Identity {
  const { trustChainId: chainId, trustSlug, trustName, trustWallet } = config
  const registry = identityRegistryOf(config)
  const agentId = agentIdOf(config, known)
  const network = networkOf(chainId)
  const registered = agentId !== undefined && known?.status === 'live'
  // Anyone can set the id of another's agent: only the registry shows whose it is.
  const isRead = known !== undefined
  return {
    registered,
    slug: trustSlug,
    name: trustName,
    agent_id: agentId ?? null,
    agent_registry: agentId === undefined ? null : agentRegistryOf(config),
    wallet_address: trustWallet ?? null,
    registry_explorer_url: `${network.explorer_url}/address/${registry}`,
    register_tx_url: registered && known?.register_tx_hash ? transactionUrl(chainId, known.register_tx_hash) : null,
    status: registered ? 'live' : agentId === undefined ? 'pending' : isRead ? 'unverified' : 'claimed',
    // Without an identity or a node, the chain is only a default.
    ...(agentId === undefined && config.trustRpcUrl === undefined ? {} : { network }),
  }
}

const labels: Record<string, string> = {
  live: 'ERC-8004 identity registered',
  unverified: 'ERC-8004 identity that the registry gives to another wallet',
  claimed: 'ERC-8004 identity claimed, not checked on the chain',
  pending: 'No on-chain identity configured',
}

/**
 * Returns the chain status. Its words are settings whose defaults imply a working setup; the labels, shown to the
 * public, state only what is configured and stored.
 */
export function chainStatus(
  config: Config,
  { registered, status }: Pick<Identity, 'registered' | 'status'>,
  { scored = [], subject, isPosted }: Pick<TrustSummary['verification'], 'scored' | 'subject'> & { isPosted: boolean },
): TrustSummary['chain'] {
  return {
    erc8004_status: registered ? 'live' : config.trustErc8004Status,
    erc8004_label: labels[status]!,
    erc8126_status: isPosted ? 'live' : config.trustErc8126Status,
    erc8126_label: isPosted
      ? 'Self-attested scores after ERC-8126, posted on a chain'
      : subject === undefined
        ? 'No ERC-8126 verification stored'
        : scored.length === 0
          ? 'ERC-8126 verification without a score'
          : subject === 'agent'
            ? 'Self-attested scores after ERC-8126'
            : 'Check of the configured address, not of an on-chain agent',
  }
}
