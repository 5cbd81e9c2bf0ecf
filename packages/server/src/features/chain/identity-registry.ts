import type { Hex } from 'viem'
import { decodeEventLog, decodeFunctionData, decodeFunctionResult, encodeFunctionData, parseAbi } from 'viem/utils'
import type { TransactionRow } from './chain-queries.ts'
import { isSameHex, type Log, type Receipt, type Rpc, RpcError } from './rpc.ts'

// https://eips.ethereum.org/EIPS/eip-8004
const abi = parseAbi([
  'function register(string agentURI) returns (uint256)',
  'function ownerOf(uint256 agentId) view returns (address)',
  'function getAgentWallet(uint256 agentId) view returns (address)',
  'function balanceOf(address owner) view returns (uint256)',
  'function tokenURI(uint256 agentId) view returns (string)',
  'function setAgentURI(uint256 agentId, string newURI)',
  'event URIUpdated(uint256 indexed agentId, string newURI, address indexed updatedBy)',
])

/** Registered(uint256 indexed agentId, string agentURI, address indexed owner) */
const registeredTopic = '0xca52e62c367d81bb2e328eb795f7c7ba24afb478408a26c0e201d155c449bc4a'

export const registerAgent = (registry: string, agentUri: string) => ({
  target: registry,
  data: encodeFunctionData({ abi, functionName: 'register', args: [agentUri] }),
})

/** Returns the agent id created by a registration, as a decimal number. The first id is 0. */
export function agentIdOf(logs: readonly Log[], registry: string, owner: string): string | undefined {
  const log = logs.find(
    ({ address, topics }) =>
      isSameHex(address, registry) && topics[0] === registeredTopic && isSameHex(topics[2]?.slice(26), owner.slice(2)),
  )
  return log?.topics[1] === undefined ? undefined : BigInt(log.topics[1]).toString()
}

/** Returns how many agents the address owns. */
export async function countAgents(rpc: Rpc, registry: string, owner: string): Promise<bigint> {
  const functionName = 'balanceOf'
  const data = await rpc.call(registry, encodeFunctionData({ abi, functionName, args: [owner as Hex] }))
  try {
    return decodeFunctionResult({ abi, functionName, data: data as Hex })
  } catch {
    throw new RpcError('The identity registry returned data of another format than its interface.', 'wrong')
  }
}

/** Reads a view function of an agent; undefined when the agent does not exist or the contract is of another kind. */
async function read(
  { rpc, registry, agentId }: { rpc: Rpc; registry: string; agentId: string },
  functionName: 'ownerOf' | 'getAgentWallet' | 'tokenURI',
  at?: number,
): Promise<string | undefined> {
  const args = [BigInt(agentId)] as const
  try {
    const data = (await rpc.call(registry, encodeFunctionData({ abi, functionName, args }), at)) as Hex
    return decodeFunctionResult({ abi, functionName, data })
  } catch (fault) {
    if (fault instanceof RpcError && fault.kind !== 'revert') throw fault
    return undefined
  }
}

/** Whether the registry names the address as the agent's owner or as its wallet. */
export async function isOwnAgent(rpc: Rpc, registry: string, agentId: string, address: string): Promise<boolean> {
  const agent = { rpc, registry, agentId }
  return isSameHex(await read(agent, 'ownerOf'), address) || isSameHex(await read(agent, 'getAgentWallet'), address)
}

export const readOwner = (rpc: Rpc, registry: string, agentId: string) => read({ rpc, registry, agentId }, 'ownerOf')

/** Returns the address of the agent's registration file. It can be any text of up to 32 KiB. */
export const readAgentUri = (rpc: Rpc, registry: string, agentId: string) =>
  read({ rpc, registry, agentId }, 'tokenURI')

export const setAgentUri = (registry: string, agentId: string, uri: string) => ({
  target: registry,
  data: encodeFunctionData({ abi, functionName: 'setAgentURI', args: [BigInt(agentId), uri] }),
})

/**
 * Returns the agent whose URI a transaction set. Undefined unless the receipt has the event and the state of its block has
 * the URI.
 */
export async function agentOfSetUri(rpc: Rpc, row: TransactionRow, receipt: Receipt): Promise<string | undefined> {
  const { functionName, args } = decodeFunctionData({ abi, data: row.data as Hex })
  if (functionName !== 'setAgentURI') return undefined
  const [agentId, uri] = args
  const isLogged = receipt.logs.some(({ address, topics, data }) => {
    if (!isSameHex(address, row.target)) return false
    try {
      const { args: logged } = decodeEventLog({ abi, topics: topics as [Hex, ...Hex[]], data: data as Hex })
      return logged.agentId === agentId && logged.newURI === uri && isSameHex(logged.updatedBy, row.sender)
    } catch {
      // Not an event of this interface.
      return false
    }
  })
  if (!isLogged) return undefined
  const agent = { rpc, registry: row.target, agentId: String(agentId) }
  const stored = await read(agent, 'tokenURI', receipt.blockNumber).catch((fault) => {
    // Ordinary nodes keep the state of a few minutes: after a longer pause of the service only the newest one is left.
    if (fault instanceof RpcError && fault.kind === 'refused') return read(agent, 'tokenURI')
    throw fault
  })
  return stored === uri ? agent.agentId : undefined
}
