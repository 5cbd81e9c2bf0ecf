import { knownEas, knownRegistries } from './known-chains.ts'
import { urlFault } from './setting-faults.ts'
import { address, addresses, flag, integer, oneOf, refuse, setting, text } from './values.ts'

/** Parses a decimal amount in units of 10^`digits` of the smallest unit, and returns it in the smallest unit. */
const amount = (digits: number) => (value: string) => {
  const [whole, fraction = ''] = /^\d{1,9}(\.\d+)?$/.test(value) ? value.split('.') : []
  if (whole === undefined || fraction.length > digits) return refuse(`must be a decimal number such as 0.05`)
  const smallest = BigInt(whole + fraction.padEnd(digits, '0'))
  return smallest > 0n ? smallest : refuse('must be more than 0')
}

function rpcUrl(value: string) {
  if (!/^https?:\/\//.test(value)) return refuse('must begin with https:// or http://')
  const fault = urlFault(value)
  return fault === undefined ? value : refuse(fault)
}

/** Each costs up to 25 requests to the node an hour, and each adds up to 20 rows to the public page. */
const maxOtherAttesters = 10

/** Settings of the on-chain side of the trust summary, which is off without TRUST_RPC_URL. */
export const chainSettings = {
  trustRpcUrl: setting({
    env: 'TRUST_RPC_URL',
    unset: undefined,
    meaning:
      'JSON-RPC address of a node of TRUST_CHAIN_ID; switches the [on-chain side](../guide/trust.md#on-chain) on. Default: none',
    parse: rpcUrl,
    secret: true,
  }),
  trustWalletKeyFile: setting({
    env: 'TRUST_WALLET_KEY_FILE',
    unset: undefined,
    meaning:
      'File (mode 0600) with the key of TRUST_WALLET_ADDRESS, which signs attestations and transactions: an encrypted JSON keystore, or 64 hexadecimal digits. Default: no transactions, and a [key of the deployment](../guide/trust.md#signed-attestations) signs attestations',
    parse: text,
  }),
  trustWalletPassphraseFile: setting({
    env: 'TRUST_WALLET_PASSPHRASE_FILE',
    unset: undefined,
    meaning: 'File (mode 0600) with the passphrase of the keystore in TRUST_WALLET_KEY_FILE',
    parse: text,
  }),
  trustSignerUrl: setting({
    env: 'TRUST_SIGNER_URL',
    unset: undefined,
    meaning:
      'JSON-RPC address of a [signer](../guide/trust.md#an-external-signer) that keeps the key of TRUST_WALLET_ADDRESS, in place of TRUST_WALLET_KEY_FILE. Default: none',
    parse: rpcUrl,
    secret: true,
  }),
  trustMaxFeeGwei: setting({
    env: 'TRUST_MAX_FEE_GWEI',
    unset: '5',
    meaning: 'Maximum fee for a unit of gas, in gwei; transactions wait while the chain asks for more',
    parse: amount(9),
  }),
  trustWeeklyBudget: setting({
    env: 'TRUST_WEEKLY_BUDGET',
    unset: '0.005',
    meaning:
      'Maximum fees of seven days, in the currency of the chain, such as ETH; what a rollup adds for its main chain is not included',
    parse: amount(18),
  }),
  trustWalletNonce: setting({
    env: 'TRUST_WALLET_NONCE',
    unset: undefined,
    meaning:
      'Transactions that the wallet has sent, by your own count. Needed only after another program used the wallet. Default: the count of the node for the first transaction, then that of the service',
    parse: integer(0, 1_000_000_000),
  }),
  trustConfirmations: setting({
    env: 'TRUST_CONFIRMATIONS',
    unset: '3',
    meaning: 'Blocks, with its own, after which a transaction counts as confirmed',
    parse: integer(1, 100),
  }),
  trustAttestOnChain: setting({
    env: 'TRUST_ATTEST_ON_CHAIN',
    unset: 'false',
    meaning:
      'Whether the weekly attestations are sent to TRUST_ATTEST_TO; for EAS register the schema first: `wardline chain schema`',
    parse: flag,
  }),
  trustAttestTo: setting({
    env: 'TRUST_ATTEST_TO',
    unset: 'eas',
    meaning:
      'Where the weekly attestations go: `eas`, or of ERC-8004 `feedback` (for an agent that the wallet does not own) or `validation` (for one that it owns)',
    parse: oneOf(['eas', 'feedback', 'validation']),
  }),
  trustReputationRegistry: setting({
    env: 'TRUST_REPUTATION_REGISTRY',
    unset: undefined,
    meaning: 'Address of the ERC-8004 reputation registry; default: the known registry of the chain',
    parse: address,
  }),
  trustEas: setting({
    env: 'TRUST_EAS_ADDRESS',
    unset: undefined,
    meaning: 'Address of EAS; default: the known address of the chain, if EAS is deployed there',
    parse: address,
  }),
  trustSchemaRegistry: setting({
    env: 'TRUST_EAS_SCHEMA_REGISTRY',
    unset: undefined,
    meaning: 'Address of the schema registry of EAS; default: the known address of the chain, if EAS is deployed there',
    parse: address,
  }),
  trustOtherAttesters: setting({
    env: 'TRUST_OTHER_ATTESTERS',
    unset: undefined,
    meaning: `Addresses of others, at most ${maxOtherAttesters}, separated by commas, whose [attestations about this deployment](../guide/trust.md#by-others) are read from the chain and published. Default: none`,
    parse: addresses(maxOtherAttesters),
  }),
  trustVerify: setting({
    env: 'TRUST_VERIFY',
    unset: 'false',
    meaning:
      'Whether the service verifies its on-chain agent, or without one its public address, once a week and publishes the [scores](../guide/trust.md#verification)',
    parse: flag,
  }),
  trustValidationRegistry: setting({
    env: 'TRUST_VALIDATION_REGISTRY',
    unset: undefined,
    meaning:
      'Address of the ERC-8004 validation registry that `wardline chain verify` posts to. Default: none, because the registry is still a draft',
    parse: address,
  }),
  trustBadAddressesFile: setting({
    env: 'TRUST_BAD_ADDRESSES_FILE',
    unset: undefined,
    meaning:
      'File with addresses that are known as bad, one a line, such as a list of sanctioned ones, with which wallets are compared. Default: none, so that no wallet has a [score](../guide/trust.md#verification)',
    parse: text,
  }),
}

interface ChainConfig {
  trustRpcUrl: string | undefined
  trustWalletKeyFile: string | undefined
  trustWalletPassphraseFile: string | undefined
  trustSignerUrl: string | undefined
  trustWallet: string | undefined
  trustAttestOnChain: boolean
  trustOtherAttesters: readonly string[] | undefined
  trustEas: string | undefined
  trustVerify: boolean
  trustAttestTo: string
  trustChainId: number
  trustRegistry: string | undefined
  trustReputationRegistry: string | undefined
  trustAgentId: string | undefined
  trustValidationRegistry: string | undefined
  publicUrl: string | undefined
}

/** Returns what is missing to read attestations by others. */
function incompleteOthers(config: ChainConfig): string[] {
  const { trustOtherAttesters: others, trustWallet, trustChainId } = config
  if (others === undefined) return []
  const faults: string[] = []
  if (config.trustRpcUrl === undefined)
    faults.push('TRUST_OTHER_ATTESTERS needs TRUST_RPC_URL: set it to a node of the chain.')
  if (trustWallet === undefined)
    faults.push('TRUST_OTHER_ATTESTERS needs TRUST_WALLET_ADDRESS: set it to the wallet that they attest about.')
  if (others.some((other) => other.toLowerCase() === trustWallet?.toLowerCase()))
    faults.push(
      'TRUST_OTHER_ATTESTERS contains TRUST_WALLET_ADDRESS, whose attestations are those of the operators: remove it.',
    )
  const eas = config.trustEas ?? knownEas(trustChainId)
  if (eas === undefined && (config.trustReputationRegistry ?? knownRegistries(trustChainId)) === undefined)
    faults.push('TRUST_OTHER_ATTESTERS needs TRUST_EAS_ADDRESS or TRUST_REPUTATION_REGISTRY on this chain: set one.')
  return faults
}

/** Returns one sentence per conflicting or incomplete chain setting. */
export function incompleteChain(config: ChainConfig): string[] {
  const faults = incompleteOthers(config)
  const hasWallet = config.trustWallet !== undefined && config.trustRpcUrl !== undefined
  if (config.trustVerify && config.publicUrl === undefined && !hasWallet)
    faults.push('TRUST_VERIFY needs WARDLINE_PUBLIC_URL, or TRUST_RPC_URL with an identity: set what to verify.')
  if (config.trustAttestTo !== 'eas' && config.trustAgentId === undefined)
    faults.push(`TRUST_ATTEST_TO=${config.trustAttestTo} needs TRUST_AGENT_ID: set it to the agent that it is about.`)
  const isKnown = knownRegistries(config.trustChainId) !== undefined
  const unknown = `TRUST_CHAIN_ID=${config.trustChainId} is none of the chains whose registries are known`
  if (!isKnown && config.trustRegistry === undefined)
    faults.push(`${unknown}: set TRUST_ERC8004_REGISTRY to the identity registry there.`)
  if (!isKnown && config.trustAttestTo === 'feedback' && config.trustReputationRegistry === undefined)
    faults.push(`${unknown}: set TRUST_REPUTATION_REGISTRY to the reputation registry there.`)
  if (config.trustAttestTo === 'validation' && config.trustValidationRegistry === undefined)
    faults.push('TRUST_ATTEST_TO=validation needs TRUST_VALIDATION_REGISTRY: set it to the address of the registry.')
  const { trustWalletKeyFile, trustSignerUrl, trustWallet } = config
  if (trustWalletKeyFile !== undefined && trustSignerUrl !== undefined)
    faults.push('TRUST_WALLET_KEY_FILE and TRUST_SIGNER_URL are both set: remove the one that does not sign.')
  if (trustWalletKeyFile !== undefined && trustWallet === undefined)
    faults.push('TRUST_WALLET_KEY_FILE needs TRUST_WALLET_ADDRESS: set it to the address of the key.')
  if (trustSignerUrl !== undefined && trustWallet === undefined)
    faults.push('TRUST_SIGNER_URL needs TRUST_WALLET_ADDRESS: set it to the address that the signer signs for.')
  if (config.trustWalletPassphraseFile !== undefined && trustWalletKeyFile === undefined)
    faults.push('TRUST_WALLET_PASSPHRASE_FILE needs TRUST_WALLET_KEY_FILE: set it to the keystore.')
  if (config.trustAttestOnChain && trustWalletKeyFile === undefined && trustSignerUrl === undefined)
    faults.push(
      'TRUST_ATTEST_ON_CHAIN needs TRUST_WALLET_KEY_FILE: set it to the key that pays for attestations, or TRUST_SIGNER_URL to its signer.',
    )
  if (config.trustAttestOnChain && config.trustRpcUrl === undefined)
    faults.push('TRUST_ATTEST_ON_CHAIN needs TRUST_RPC_URL: set it to a node of the chain.')
  return faults
}
