import type { Hex } from 'viem'
import { decodeEventLog, decodeFunctionResult, encodeFunctionData, parseAbi, toHex } from 'viem/utils'
import type { AttestationSink } from './attestation-sink.ts'
import { isSameHex, type Log, type Rpc, RpcError } from './rpc.ts'

// https://eips.ethereum.org/EIPS/eip-8004
const abi = parseAbi([
  'function giveFeedback(uint256 agentId, int128 value, uint8 valueDecimals, string tag1, string tag2, string endpoint, string feedbackURI, bytes32 feedbackHash)',
  'function revokeFeedback(uint256 agentId, uint64 feedbackIndex)',
  'function readFeedback(uint256 agentId, address clientAddress, uint64 feedbackIndex) view returns (int128 value, uint8 valueDecimals, string tag1, string tag2, bool isRevoked)',
  'function getLastIndex(uint256 agentId, address clientAddress) view returns (uint64)',
  'event NewFeedback(uint256 indexed agentId, address indexed clientAddress, uint64 feedbackIndex, int128 value, uint8 valueDecimals, string indexed indexedTag1, string tag1, string tag2, string endpoint, string feedbackURI, bytes32 feedbackHash)',
])

const wrongFormat = () =>
  new RpcError('The reputation registry returned data of another format than its interface.', 'wrong')

/** The registry accepts no more. */
const maxDecimals = 18

/**
 * Reads the newest `count` entries of feedback that a client gave an agent, at a block, without those that are revoked.
 * One by one, because the tags of all together may exceed the limit of a response; one whose tags alone exceed it is left out.
 */
export async function readFeedback(
  rpc: Rpc,
  { registry, agentId, client }: { registry: string; agentId: string; client: string },
  count: number,
  block: number,
) {
  const asked = [BigInt(agentId), client as Hex] as const
  const lastIndex = { abi, functionName: 'getLastIndex' } as const
  const data = await rpc.call(registry, encodeFunctionData({ ...lastIndex, args: asked }), block)
  let last: bigint
  try {
    last = decodeFunctionResult({ ...lastIndex, data: data as Hex })
  } catch {
    throw wrongFormat()
  }
  const found: { index: string; value: bigint; decimals: number; tags: [string, string] }[] = []
  for (let index = last; index > 0n && index > last - BigInt(count); index--) {
    const one = { abi, functionName: 'readFeedback' } as const
    try {
      const answer = await rpc.call(registry, encodeFunctionData({ ...one, args: [...asked, index] }), block)
      const [value, decimals, tag1, tag2, isRevoked] = decodeFunctionResult({ ...one, data: answer as Hex })
      if (!isRevoked && decimals <= maxDecimals)
        found.push({ index: String(index), value, decimals, tags: [tag1, tag2] })
    } catch (fault) {
      if (!(fault instanceof RpcError)) throw wrongFormat()
      if (fault.kind !== 'large' && fault.kind !== 'revert') throw fault
    }
  }
  return found
}

/**
 * Attestation sink that posts feedback for an agent. The wallet must not own the agent: the registry refuses feedback
 * from owners. The uid is the feedback's index; the hash is only in the event.
 */
export function createFeedbackSink(registry: string, agentId: string, wallet: string): AttestationSink {
  const agent = BigInt(agentId)

  function uidOf(logs: readonly Log[], hash: string): string | undefined {
    for (const { address, topics, data } of logs) {
      if (!isSameHex(address, registry)) continue
      try {
        const { args } = decodeEventLog({ abi, topics: topics as [Hex, ...Hex[]], data: data as Hex })
        const isOurs =
          args.agentId === agent && isSameHex(args.clientAddress, wallet) && isSameHex(args.feedbackHash, hash)
        if (isOurs) return toHex(args.feedbackIndex, { size: 32 })
      } catch {
        // Not an event of this interface.
      }
    }
    return undefined
  }

  return {
    write({ hash, namespace, tag, score }) {
      const args = [agent, BigInt(score), 0, namespace, tag, '', '', hash as Hex] as const
      return { target: registry, data: encodeFunctionData({ abi, functionName: 'giveFeedback', args }) }
    },
    uidOf,
    revoke({ uid }) {
      const args = [agent, BigInt(uid)] as const
      return { target: registry, data: encodeFunctionData({ abi, functionName: 'revokeFeedback', args }) }
    },
    async state(rpc, { uid, hash, txHash }) {
      const receipt = await rpc.receipt(txHash, wallet, registry)
      if (!receipt?.ok || uidOf(receipt.logs, hash) !== uid) return undefined
      const args = [agent, wallet as Hex, BigInt(uid)] as const
      const data = await rpc.call(registry, encodeFunctionData({ abi, functionName: 'readFeedback', args }))
      try {
        const [, , , , isRevoked] = decodeFunctionResult({ abi, functionName: 'readFeedback', data: data as Hex })
        return isRevoked ? 'revoked' : 'valid'
      } catch {
        throw wrongFormat()
      }
    },
  }
}
