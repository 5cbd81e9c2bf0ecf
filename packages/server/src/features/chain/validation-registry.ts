import type { Hex } from 'viem'
import { decodeEventLog, decodeFunctionData, decodeFunctionResult, encodeFunctionData, parseAbi } from 'viem/utils'
import { type Log, type Rpc, RpcError } from './rpc.ts'

// https://eips.ethereum.org/EIPS/eip-8004, whose validation registry is still being discussed.
const abi = parseAbi([
  'function validationRequest(address validator, uint256 agentId, string requestURI, bytes32 requestHash)',
  'function validationResponse(bytes32 requestHash, uint8 response, string responseURI, bytes32 responseHash, string tag)',
  'function getValidationStatus(bytes32 requestHash) view returns (address validator, uint256 agentId, uint8 response, bytes32 responseHash, string tag, uint256 lastUpdate)',
  'event ValidationRequest(address indexed validator, uint256 indexed agentId, string requestURI, bytes32 indexed requestHash)',
  'event ValidationResponse(address indexed validator, uint256 indexed agentId, bytes32 indexed requestHash, uint8 response, string responseURI, bytes32 responseHash, string tag)',
])

interface Response {
  requestHash: string
  /** 100 is best, the opposite of a risk score. */
  response: number
  responseHash: string
  tag: string
}

const same = (one: string, other: string) => one.toLowerCase() === other.toLowerCase()

/** Answer in a transaction of `respond`. */
export function responseIn(data: string): Response | undefined {
  const { functionName, args } = decodeFunctionData({ abi, data: data as Hex })
  if (functionName !== 'validationResponse') return undefined
  const [requestHash, response, , responseHash, tag] = args
  return { requestHash, response, responseHash, tag }
}

export const isSameResponse = (one: Response, other: Response): boolean =>
  same(one.requestHash, other.requestHash) &&
  same(one.responseHash, other.responseHash) &&
  one.response === other.response &&
  one.tag === other.tag

/** The registry, as one account uses it that asks for validations and answers them itself. */
export function createValidationRegistry(registry: string, validator: string) {
  /** The events of the registry; what is of another form is none of its interface. */
  function* eventsOf(logs: readonly Log[]) {
    for (const { address, topics, data } of logs) {
      if (!same(address, registry)) continue
      try {
        yield decodeEventLog({ abi, topics: topics as [Hex, ...Hex[]], data: data as Hex })
      } catch {
        // An event of another form.
      }
    }
  }

  return {
    request: (agentId: string, uri: string, hash: string) => ({
      target: registry,
      data: encodeFunctionData({
        abi,
        functionName: 'validationRequest',
        args: [validator as Hex, BigInt(agentId), uri, hash as Hex],
      }),
    }),

    respond: ({ requestHash, response, responseHash, tag }: Response, uri: string) => ({
      target: registry,
      data: encodeFunctionData({
        abi,
        functionName: 'validationResponse',
        args: [requestHash as Hex, response, uri, responseHash as Hex, tag],
      }),
    }),

    isRequested: (logs: readonly Log[], hash: string): boolean =>
      [...eventsOf(logs)].some(
        ({ eventName, args }) =>
          eventName === 'ValidationRequest' && same(args.requestHash, hash) && same(args.validator, validator),
      ),

    /** Answer of this validator in a transaction. */
    answered: (logs: readonly Log[]): Response[] =>
      [...eventsOf(logs)].flatMap(({ eventName, args }) =>
        eventName === 'ValidationResponse' && same(args.validator, validator) ? [args] : [],
      ),

    /** What this validator answered last; undefined when it did not, or nobody asked. An answer of 0 is one. */
    async answer(rpc: Rpc, requestHash: string): Promise<Response | undefined> {
      const call = encodeFunctionData({ abi, functionName: 'getValidationStatus', args: [requestHash as Hex] })
      const data = await rpc.call(registry, call).catch((fault) => {
        if (fault instanceof RpcError && fault.kind === 'revert') return undefined
        throw fault
      })
      if (data === undefined) return undefined
      try {
        const [by, , response, responseHash, tag] = decodeFunctionResult({
          abi,
          functionName: 'getValidationStatus',
          data: data as Hex,
        })
        return same(by, validator) && tag !== '' ? { requestHash, response, responseHash, tag } : undefined
      } catch {
        throw new RpcError('The validation registry answered in another form than its interface has.', 'wrong')
      }
    },
  }
}
