import type { Network } from '@wardline/contract'

type KnownEas = readonly [eas: string, schemaRegistry: string, version: string]

interface KnownChain {
  name: string
  /** Coins of a test network are worth nothing, and its registries have other addresses. */
  isTest?: true
  /** Where that is listed; it has pages /address/… and /tx/… */
  explorer?: string
  /** EAS, its schema registry and its version, where they are deployed. */
  eas?: KnownEas
  /** Explorer of EAS; it has pages /attestation/view/… */
  easscan?: string
}

const ofMainNetworks = {
  identity: '0x8004A169FB4a3325136EB29fA0ceB6D2e539a432',
  reputation: '0x8004BAa17C55a88189AE136b182e5fdA19dE9b63',
}
const ofTestNetworks = {
  identity: '0x8004A818BFB912233c491871b3d84c89A494BD9e',
  reputation: '0x8004B663056A597Dffe9eCcC1965A193B7388713',
}

/** Built into rollups of the OP Stack. */
const onOpStack = ['0x4200000000000000000000000000000000000021', '0x4200000000000000000000000000000000000020'] as const

/**
 * Chains on which the registries of ERC-8004 are deployed, by EIP-155 id: scripts/addresses.ts and README of
 * https://github.com/erc-8004/erc-8004-contracts at b9e466c, without the local chain of Hardhat. Addresses and versions of EAS: README of
 * https://github.com/ethereum-attestation-service/eas-contracts at aa47c22; its explorers:
 * https://github.com/ethereum-attestation-service/eas-docs-site at d4d3116. Names: viem 2.57.1, two of them
 * https://github.com/ethereum-lists/chains at 804c0f3 and 123754b.
 */
const knownChains: Record<number, KnownChain> = {
  1: {
    name: 'Ethereum',
    easscan: 'https://easscan.org',
    explorer: 'https://etherscan.io',
    eas: ['0xA1207F3BBa224E2c9c3c6D5aF63D0eb1582Ce587', '0xA7b39296258348C78294F95B872b282326A97BDF', '0.26'],
  },
  10: {
    name: 'OP Mainnet',
    easscan: 'https://optimism.easscan.org',
    explorer: 'https://optimistic.etherscan.io',
    eas: [...onOpStack, '1.0.1'],
  },
  56: { name: 'BNB Smart Chain', explorer: 'https://bscscan.com' },
  100: { name: 'Gnosis', explorer: 'https://gnosisscan.io' },
  137: {
    name: 'Polygon',
    easscan: 'https://polygon.easscan.org',
    explorer: 'https://polygonscan.com',
    eas: ['0x5E634ef5355f45A855d02D66eCD687b1502AF790', '0x7876EEF51A891E737AF8ba5A5E0f0Fd29073D5a7', '1.3.0'],
  },
  143: { name: 'Monad', explorer: 'https://monadscan.com' },
  196: { name: 'X Layer Mainnet', explorer: 'https://www.oklink.com/xlayer' },
  295: { name: 'Hedera Mainnet' },
  360: { name: 'Shape' },
  1088: { name: 'Metis', explorer: 'https://andromeda-explorer.metis.io' },
  1868: { name: 'Soneium Mainnet', explorer: 'https://soneium.blockscout.com', eas: [...onOpStack, '1.4.1-beta.1'] },
  2345: { name: 'GOAT', explorer: 'https://explorer.goat.network' },
  2741: { name: 'Abstract', explorer: 'https://explorer.mainnet.abs.xyz' },
  4326: { name: 'MegaETH', explorer: 'https://megaeth.blockscout.com' },
  5000: { name: 'Mantle', explorer: 'https://mantlescan.xyz' },
  8453: {
    name: 'Base',
    easscan: 'https://base.easscan.org',
    explorer: 'https://basescan.org',
    eas: [...onOpStack, '1.0.1'],
  },
  42161: {
    name: 'Arbitrum One',
    easscan: 'https://arbitrum.easscan.org',
    explorer: 'https://arbiscan.io',
    eas: ['0xbD75f629A22Dc1ceD33dDA0b68c546A1c035c458', '0xA310da9c5B885E7fb3fbA9D66E9Ba6Df512b78eB', '0.26'],
  },
  42220: {
    name: 'Celo',
    easscan: 'https://celo.easscan.org',
    explorer: 'https://celoscan.io',
    eas: ['0x72E1d8ccf5299fb36fEfD8CC4394B8ef7e98Af92', '0x5ece93bE4BDCF293Ed61FA78698B594F2135AF34', '1.3.0'],
  },
  43114: { name: 'Avalanche', explorer: 'https://snowtrace.io' },
  59144: {
    name: 'Linea Mainnet',
    easscan: 'https://linea.easscan.org',
    explorer: 'https://lineascan.build',
    eas: ['0xaEF4103A04090071165F78D45D83A0C0782c2B2a', '0x55D26f9ae0203EF95494AE4C170eD35f4Cf77797', '1.2.0'],
  },
  167000: { name: 'Taiko Mainnet', explorer: 'https://taikoscan.io' },
  534352: {
    name: 'Scroll',
    easscan: 'https://scroll.easscan.org',
    explorer: 'https://scrollscan.com',
    eas: ['0xC47300428b6AD2c7D03BB76D05A176058b47E6B0', '0xD2CDF46556543316e7D34e8eDc4624e2bB95e3B6', '1.3.0'],
  },
  1187947933: { name: 'SKALE Base', explorer: 'https://skale-base-explorer.skalenodes.com' },

  97: { name: 'BNB Smart Chain Testnet', isTest: true, explorer: 'https://testnet.bscscan.com' },
  296: { name: 'Hedera Testnet', isTest: true },
  1946: { name: 'Soneium Minato Testnet', isTest: true, explorer: 'https://soneium-minato.blockscout.com' },
  1952: { name: 'X Layer Testnet', isTest: true, explorer: 'https://www.oklink.com/xlayer-test' },
  5003: { name: 'Mantle Sepolia Testnet', isTest: true, explorer: 'https://sepolia.mantlescan.xyz' },
  6343: { name: 'MegaETH Testnet', isTest: true, explorer: 'https://megaeth-testnet-v2.blockscout.com' },
  10143: { name: 'Monad Testnet', isTest: true, explorer: 'https://monad-testnet.socialscan.io' },
  10200: { name: 'Gnosis Chiado', isTest: true },
  11011: { name: 'Shape Sepolia Testnet', isTest: true },
  11124: { name: 'Abstract Testnet', isTest: true, explorer: 'https://explorer.testnet.abs.xyz' },
  43113: { name: 'Avalanche Fuji', isTest: true, explorer: 'https://testnet.snowtrace.io' },
  48816: { name: 'GOAT Network Testnet3', isTest: true },
  59141: { name: 'Linea Sepolia Testnet', isTest: true, explorer: 'https://sepolia.lineascan.build' },
  59902: { name: 'Metis Sepolia', isTest: true, explorer: 'https://sepolia-explorer.metisdevops.link' },
  80002: {
    name: 'Polygon Amoy',
    isTest: true,
    explorer: 'https://amoy.polygonscan.com',
    eas: ['0xb101275a60d8bfb14529C421899aD7CA1Ae5B5Fc', '0x23c5701A1BDa89C61d181BD79E5203c730708AE7', '1.3.0'],
  },
  84532: {
    name: 'Base Sepolia',
    easscan: 'https://base-sepolia.easscan.org',
    isTest: true,
    explorer: 'https://sepolia.basescan.org',
    eas: [...onOpStack, '1.2.0'],
  },
  167013: { name: 'Taiko Hoodi', isTest: true, explorer: 'https://hoodi.taikoscan.io' },
  421614: {
    name: 'Arbitrum Sepolia',
    isTest: true,
    explorer: 'https://sepolia.arbiscan.io',
    eas: ['0x2521021fc8BF070473E1e1801D3c7B4aB701E1dE', '0x45CB6Fa0870a8Af06796Ac15915619a0f22cd475', '1.3.0'],
  },
  534351: {
    name: 'Scroll Sepolia',
    easscan: 'https://scroll-sepolia.easscan.org',
    isTest: true,
    explorer: 'https://sepolia.scrollscan.com',
    eas: ['0xaEF4103A04090071165F78D45D83A0C0782c2B2a', '0x55D26f9ae0203EF95494AE4C170eD35f4Cf77797', '1.3.0'],
  },
  5042002: { name: 'Arc Testnet', isTest: true, explorer: 'https://testnet.arcscan.app' },
  11142220: { name: 'Celo Sepolia Testnet', isTest: true, explorer: 'https://sepolia.celoscan.io' },
  11155111: {
    name: 'Sepolia',
    easscan: 'https://sepolia.easscan.org',
    isTest: true,
    explorer: 'https://sepolia.etherscan.io',
    eas: ['0xC2679fBD37d54388Ce493F1DB75320D236e1815e', '0x0a7E2Ff54e76B8E6659aedc9103FB21c038050D0', '0.26'],
  },
  11155420: {
    name: 'OP Sepolia',
    easscan: 'https://optimism-sepolia.easscan.org',
    isTest: true,
    explorer: 'https://testnet-explorer.optimism.io',
    eas: [...onOpStack, '1.0.2'],
  },
  324705682: {
    name: 'SKALE Base Sepolia Testnet',
    isTest: true,
    explorer: 'https://base-sepolia-testnet-explorer.skalenodes.com',
  },
}

/** Looks up addresses on any chain. */
const anyExplorer = 'https://blockscan.com'

const explorerOf = (chainId: number): string => knownChains[chainId]?.explorer ?? anyExplorer

/** A chain as the public summary names it; one that is not known has its id as name. */
export function networkOf(chainId: number): Network {
  const id = `eip155:${chainId}`
  const known = knownChains[chainId]
  const is_test_network = known ? known.isTest === true : null
  return { id, name: known?.name ?? id, is_test_network, explorer_url: explorerOf(chainId) }
}

/** The page of an attestation at the explorer of EAS; undefined where that does not know the contract. */
export function attestationUrl(chainId: number, contract: string, uid: string): string | undefined {
  const { easscan, eas } = knownChains[chainId] ?? {}
  const isKnown = easscan !== undefined && eas?.[0].toLowerCase() === contract.toLowerCase()
  return isKnown ? `${easscan}/attestation/view/${uid}` : undefined
}

export const transactionUrl = (chainId: number, hash: string): string => `${explorerOf(chainId)}/tx/${hash}`

/** The registries of ERC-8004; undefined for other chains than the known ones. */
export function knownRegistries(chainId: number): { identity: string; reputation: string } | undefined {
  const chain = knownChains[chainId]
  return chain && (chain.isTest ? ofTestNetworks : ofMainNetworks)
}

/** Addresses of EAS and its schema registry, and its version; undefined where they are not known. */
export const knownEas = (chainId: number): KnownEas | undefined => knownChains[chainId]?.eas
