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

const zeroAddress = `0x${'0'.repeat(40)}`

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

const otherFormat = 'The identity registry returned data of another format than its interface.'

/** Returns how many agents the address owns. */
export async function countAgents(rpc: Rpc, registry: string, owner: string): Promise<bigint> {
  const functionName = 'balanceOf'
  const data = await rpc.call(registry, encodeFunctionData({ abi, functionName, args: [owner as Hex] }))
  try {
    return decodeFunctionResult({ abi, functionName, data: data as Hex })
  } catch {
    throw new RpcError(otherFormat, 'wrong')
  }
}

interface Agent {
  rpc: Rpc
  registry: string
  agentId: string
}

type View = 'ownerOf' | 'getAgentWallet' | 'tokenURI'

/** Asks a view function about an agent. Throws RpcError, or another error if the answer is of another format. */
async function ask({ rpc, registry, agentId }: Agent, functionName: View, at?: number): Promise<string> {
  const args = [BigInt(agentId)] as const
  const data = (await rpc.call(registry, encodeFunctionData({ abi, functionName, args }), at)) as Hex
  return decodeFunctionResult({ abi, functionName, data })
}

/** Reads a view function of an agent; undefined when the agent does not exist or the contract is of another kind. */
async function read(agent: Agent, functionName: View, at?: number): Promise<string | undefined> {
  try {
    return await ask(agent, functionName, at)
  } catch (fault) {
    if (fault instanceof RpcError && fault.kind !== 'revert') throw fault
    return undefined
  }
}

export interface RegisteredAgent {
  uri: string
  /** The wallet that the registry has for the agent, else its owner. */
  wallet: string
}

/** Reads what the registry says of an agent. Throws RpcError, of kind `revert` if there is no such agent. */
export async function readAgent(rpc: Rpc, registry: string, agentId: string): Promise<RegisteredAgent> {
  const described = (functionName: View) =>
    ask({ rpc, registry, agentId }, functionName).catch((fault) => {
      if (!(fault instanceof RpcError)) throw new RpcError(otherFormat, 'wrong')
      // An agent with an owner exists: what refuses the other two is no registry of ERC-8004.
      throw fault.kind === 'revert' && functionName !== 'ownerOf' ? new RpcError(fault.message, 'wrong') : fault
    })
  const owner = await described('ownerOf')
  const [wallet, uri] = [await described('getAgentWallet'), await described('tokenURI')]
  return { uri, wallet: wallet === zeroAddress ? owner : wallet }
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
