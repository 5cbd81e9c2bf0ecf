import type { Hex } from 'viem'
import { decodeFunctionResult, encodeFunctionData, parseAbi } from 'viem/utils'
import { isSameHex, type Log, type Rpc, RpcError } from './rpc.ts'

// https://eips.ethereum.org/EIPS/eip-8004
const abi = parseAbi([
  'function register(string agentURI) returns (uint256)',
  'function ownerOf(uint256 agentId) view returns (address)',
  'function getAgentWallet(uint256 agentId) view returns (address)',
  'function balanceOf(address owner) view returns (uint256)',
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

/** Whether the registry names the address as the agent's owner or as its wallet. */
export async function isOwnAgent(rpc: Rpc, registry: string, agentId: string, address: string): Promise<boolean> {
  const ask = async (functionName: 'ownerOf' | 'getAgentWallet') => {
    const args = [BigInt(agentId)] as const
    try {
      const data = (await rpc.call(registry, encodeFunctionData({ abi, functionName, args }))) as Hex
      return decodeFunctionResult({ abi, functionName, data })
    } catch (fault) {
      // An unregistered agent has no owner, and a different kind of contract returns data of another form.
      if (fault instanceof RpcError && fault.kind !== 'revert') throw fault
      return undefined
    }
  }
  return isSameHex(await ask('ownerOf'), address) || isSameHex(await ask('getAgentWallet'), address)
}
