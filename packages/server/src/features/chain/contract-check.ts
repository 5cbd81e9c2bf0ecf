import type { Hex } from 'viem'
import { decodeFunctionResult, encodeFunctionData, parseAbi, toFunctionSelector } from 'viem/utils'
import type { Config } from '../../config/config.ts'
import { isSchemaRegistered } from './eas.ts'
import { easOf, identityRegistryOf, reputationRegistryOf, schemaRegistryOf } from './known-contracts.ts'
import { type Rpc, RpcError } from './rpc.ts'

const abi = parseAbi([
  'function supportsInterface(bytes4 id) view returns (bool)',
  'function getIdentityRegistry() view returns (address)',
  'function getSchemaRegistry() view returns (address)',
])
const erc721: Hex = '0x80ac58cd'

interface Contract {
  setting: string
  what: string
  /** The configured address now; undefined: the one that the transaction was made for holds. */
  address(config: Config): string | undefined
  /** Whether the contract answers a question that others have not. */
  answers(rpc: Rpc, address: string): Promise<boolean>
  /** What else must be true before something is signed; undefined if it is. */
  lacks?(rpc: Rpc, address: string): Promise<string | undefined>
}

/** Reads a view function; undefined if the contract has none that answers so. */
async function read<Result>(rpc: Rpc, address: string, data: Hex, decode: (answer: Hex) => Result) {
  try {
    return decode((await rpc.call(address, data)) as Hex)
  } catch (fault) {
    if (fault instanceof RpcError && fault.kind !== 'revert') throw fault
    return undefined
  }
}

const addressFrom = (functionName: 'getIdentityRegistry' | 'getSchemaRegistry') => (rpc: Rpc, address: string) =>
  read(rpc, address, encodeFunctionData({ abi, functionName }), (data) =>
    decodeFunctionResult({ abi, functionName, data }),
  )
const identityRegistryFrom = addressFrom('getIdentityRegistry')
const schemaRegistryFrom = addressFrom('getSchemaRegistry')

const ofIdentityRegistry = async (rpc: Rpc, address: string) => (await identityRegistryFrom(rpc, address)) !== undefined

const identity: Contract = {
  setting: 'TRUST_ERC8004_REGISTRY',
  what: 'an identity registry of ERC-8004',
  address: identityRegistryOf,
  answers: async (rpc, address) => {
    const functionName = 'supportsInterface'
    const call = encodeFunctionData({ abi, functionName, args: [erc721] })
    return (await read(rpc, address, call, (data) => decodeFunctionResult({ abi, functionName, data }))) === true
  },
}
const schemas: Contract = {
  setting: 'TRUST_EAS_SCHEMA_REGISTRY',
  what: 'a schema registry of EAS',
  address: schemaRegistryOf,
  answers: async (rpc, address) => {
    try {
      await isSchemaRegistered(rpc, address)
      return true
    } catch (fault) {
      if (fault instanceof RpcError && fault.kind === 'unavailable') throw fault
      return false
    }
  },
}
const eas: Contract = {
  setting: 'TRUST_EAS_ADDRESS',
  what: 'EAS',
  address: easOf,
  answers: async (rpc, address) => (await schemaRegistryFrom(rpc, address)) !== undefined,
  lacks: async (rpc, address) => {
    const registry = await schemaRegistryFrom(rpc, address)
    if (registry !== undefined && (await isSchemaRegistered(rpc, registry))) return undefined
    return 'the schema of the attestations is not registered on this chain: run `wardline chain schema`'
  },
}
const reputation: Contract = {
  setting: 'TRUST_REPUTATION_REGISTRY',
  what: 'a reputation registry of ERC-8004',
  address: reputationRegistryOf,
  answers: ofIdentityRegistry,
}
const validation: Contract = {
  setting: 'TRUST_VALIDATION_REGISTRY',
  what: 'a validation registry of ERC-8004',
  // A response must go where its request is.
  address: () => undefined,
  answers: ofIdentityRegistry,
}

const contracts: Record<string, Contract> = Object.fromEntries(
  (
    [
      ['register(string)', identity],
      // The same id is another agent in another registry.
      ['setAgentURI(uint256,string)', { ...identity, address: () => undefined }],
      ['register(string,address,bool)', schemas],
      ['attest((bytes32,(address,uint64,bool,bytes32,bytes,uint256)))', eas],
      ['giveFeedback(uint256,int128,uint8,string,string,string,string,bytes32)', reputation],
      ['validationRequest(address,uint256,string,bytes32)', validation],
      ['validationResponse(bytes32,uint8,string,bytes32,string)', validation],
    ] as const
  ).map(([signature, contract]) => [toFunctionSelector(signature), contract]),
)

/** Where a call that is not signed yet goes: the address may have been corrected since it was queued. */
export function targetOf(config: Config, { target, data }: { target: string; data: string }): string {
  return contracts[data.slice(0, 10)]?.address(config) ?? target
}

/**
 * Throws RpcError `contract` with what to correct unless the call can succeed: an address without code accepts any call,
 * takes the fee and does nothing.
 */
export async function assertContract(rpc: Rpc, { target, data }: { target: string; data: string }): Promise<void> {
  const contract = contracts[data.slice(0, 10)]
  if (!contract) return
  const { setting, what, answers, lacks } = contract
  const refuse = (rule: string) => new RpcError(`${setting}: ${rule}.`, 'contract')
  if ((await rpc.code(target)) === '0x')
    throw refuse(`there is no contract at ${target} on this chain: correct the address`)
  if (!(await answers(rpc, target))) throw refuse(`the contract at ${target} is not ${what}: correct the address`)
  const missing = await lacks?.(rpc, target)
  if (missing !== undefined) throw refuse(missing)
}
