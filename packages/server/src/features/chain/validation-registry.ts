import type { Hex } from 'viem'
import { decodeEventLog, decodeFunctionData, decodeFunctionResult, encodeFunctionData, parseAbi } from 'viem/utils'
import { isSameHex, type Log, type Rpc, RpcError } from './rpc.ts'

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

/** A response as it is sent and logged. The registry does not store the URI. */
interface SentResponse extends Response {
  uri: string
}

/** Decodes the response in the call data of `respond`; undefined for another function. */
function responseIn(data: string): SentResponse | undefined {
  try {
    const { functionName, args } = decodeFunctionData({ abi, data: data as Hex })
    if (functionName !== 'validationResponse') return undefined
    const [requestHash, response, uri, responseHash, tag] = args
    return { requestHash, response, uri, responseHash, tag }
  } catch {
    // A call of another contract: TRUST_ATTEST_TO was changed since.
    return undefined
  }
}

export const isSameResponse = (one: Response, other: Response): boolean =>
  isSameHex(one.requestHash, other.requestHash) &&
  isSameHex(one.responseHash, other.responseHash) &&
  one.response === other.response &&
  one.tag === other.tag

/** Validation registry for one account that both requests validations and responds to them. */
export function createValidationRegistry(registry: string, validator: string) {
  /** Events of the registry. Logs that do not match its interface are skipped. */
  function* eventsOf(logs: readonly Log[]) {
    for (const { address, topics, data } of logs) {
      if (!isSameHex(address, registry)) continue
      try {
        yield decodeEventLog({ abi, topics: topics as [Hex, ...Hex[]], data: data as Hex })
      } catch {
        // Not an event of this interface.
      }
    }
  }

  /** Responses of this validator in a transaction's logs. */
  const answered = (logs: readonly Log[]): SentResponse[] =>
    [...eventsOf(logs)].flatMap(({ eventName, args }) =>
      eventName === 'ValidationResponse' && isSameHex(args.validator, validator)
        ? [{ ...args, uri: args.responseURI }]
        : [],
    )

  /** Returns the response of this call data if the logs of its transaction have it. */
  function loggedResponse(data: string, logs: readonly Log[]): Response | undefined {
    const sent = responseIn(data)
    return sent && answered(logs).find((found) => isSameResponse(found, sent) && found.uri === sent.uri)
  }

  /** Returns this validator's latest response; undefined without a request or a response. A response of 0 counts. */
  async function answer(rpc: Rpc, requestHash: string): Promise<Response | undefined> {
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
      return isSameHex(by, validator) && tag !== '' ? { requestHash, response, responseHash, tag } : undefined
    } catch {
      throw new RpcError('The validation registry returned data of another format than its interface.', 'wrong')
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

    respond: ({ requestHash, response, responseHash, tag, uri }: SentResponse) => ({
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
          eventName === 'ValidationRequest' &&
          isSameHex(args.requestHash, hash) &&
          isSameHex(args.validator, validator),
      ),

    answered,
    answer,
    loggedResponse,

    /** Whether the response of this call data is both in the logs of its transaction and in the state of the registry. */
    async isAnswered(rpc: Rpc, data: string, logs: readonly Log[]): Promise<boolean> {
      const response = loggedResponse(data, logs)
      if (!response) return false
      const stored = await answer(rpc, response.requestHash)
      return stored !== undefined && isSameResponse(stored, response)
    },
  }
}

export type ValidationRegistry = ReturnType<typeof createValidationRegistry>
