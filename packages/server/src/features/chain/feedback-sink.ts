import type { Json } from '@wardline/contract'
import type { Hex } from 'viem'
import {
  decodeEventLog,
  decodeFunctionData,
  decodeFunctionResult,
  encodeFunctionData,
  getAddress,
  parseAbi,
  toHex,
} from 'viem/utils'
import { isoTime } from '../../clock.ts'
import type { AttestationReader, AttestationSink } from './attestation-sink.ts'
import { attestedBy, documentOf } from './documents.ts'
import { agentNumber } from './registration.ts'
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

/** Feedback of one account about one agent. */
interface Given {
  chainId: number
  /** Address of the reputation registry. */
  registry: string
  agentId: string
  wallet: string
}

type Shown = Record<'value' | 'valueDecimals' | 'tag1' | 'tag2', string | number | bigint>

/** The fields that the feedback file has in common with the event. */
const sharedFields = ({ chainId, agentId, wallet }: Given, { value, valueDecimals, tag1, tag2 }: Shown) =>
  ({
    agentId: agentNumber(agentId),
    clientAddress: `eip155:${chainId}:${getAddress(wallet)}`,
    ...{ value: Number(value), valueDecimals, tag1, tag2 },
  }) as Record<string, Json>

/** Feedback of this account about this agent in a transaction's logs. */
function feedbackIn(logs: readonly Log[], { registry, agentId, wallet }: Given) {
  return logs.flatMap(({ address, topics, data }) => {
    if (!isSameHex(address, registry)) return []
    try {
      const { args } = decodeEventLog({ abi, topics: topics as [Hex, ...Hex[]], data: data as Hex })
      return args.agentId === BigInt(agentId) && isSameHex(args.clientAddress, wallet) ? [args] : []
    } catch {
      // Not an event of this interface.
      return []
    }
  })
}

/** The parts of a call that its event repeats; undefined for another call. */
function partsOf(data: string) {
  try {
    const { functionName, args } = decodeFunctionData({ abi, data: data as Hex })
    return functionName === 'giveFeedback' ? args.slice(1) : undefined
  } catch {
    // A call of another contract: TRUST_ATTEST_TO was changed since.
    return undefined
  }
}

/** The uid is the feedback's index. Its file and hash are only in the event. */
export function createFeedbackReader(given: Given): AttestationReader {
  const { registry, agentId, wallet } = given
  return {
    async state(rpc, { uid, hash, txHash }) {
      const receipt = await rpc.receipt(txHash, wallet, registry)
      if (!receipt?.ok) return undefined
      const found = feedbackIn(receipt.logs, given).find(({ feedbackIndex }) => feedbackIndex === BigInt(uid))
      if (!found) return undefined
      const attested = attestedBy({ uri: found.feedbackURI, hash: found.feedbackHash }, sharedFields(given, found))
      if (!attested || !isSameHex(attested.hash, hash)) return undefined
      const args = [BigInt(agentId), wallet as Hex, BigInt(uid)] as const
      const data = await rpc.call(registry, encodeFunctionData({ abi, functionName: 'readFeedback', args }))
      try {
        const [, , , , isRevoked] = decodeFunctionResult({ abi, functionName: 'readFeedback', data: data as Hex })
        return { isRevoked, isBare: attested.isBare }
      } catch {
        throw wrongFormat()
      }
    },
  }
}

/**
 * Attestation sink that posts feedback for an agent, with the feedback file of ERC-8004. The wallet must not own the
 * agent: the registry refuses feedback from owners.
 */
export function createFeedbackSink(given: Given, agentRegistry: string): AttestationSink {
  const { registry, agentId } = given
  const agent = BigInt(agentId)
  return {
    ...createFeedbackReader(given),
    write(record) {
      const { namespace: tag1, tag: tag2, score: value, at } = record
      const shared = sharedFields(given, { value, valueDecimals: 0, tag1, tag2 })
      const { uri, hash } = documentOf({ agentRegistry, createdAt: isoTime(at), ...shared }, record)
      const args = [agent, BigInt(value), 0, tag1, tag2, '', uri, hash as Hex] as const
      return { target: registry, data: encodeFunctionData({ abi, functionName: 'giveFeedback', args }) }
    },
    uidOf(logs, data) {
      const written = partsOf(data)
      if (!written) return undefined
      const found = feedbackIn(logs, given).find((logged) => {
        const { value, valueDecimals, tag1, tag2, endpoint, feedbackURI, feedbackHash } = logged
        const seen = [value, valueDecimals, tag1, tag2, endpoint, feedbackURI, feedbackHash]
        return seen.every((part, place) => part === written[place])
      })
      return found && toHex(found.feedbackIndex, { size: 32 })
    },
    revoke(uid) {
      const args = [agent, BigInt(uid)] as const
      return { target: registry, data: encodeFunctionData({ abi, functionName: 'revokeFeedback', args }) }
    },
  }
}
