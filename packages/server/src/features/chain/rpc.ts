import { Type } from '@wardline/contract'
import { cutText, sanitize, utf16Size } from '@wardline/text'
import type { Hex } from 'viem'
import { decodeErrorResult, parseAbi } from 'viem/utils'
import { maxAnswerBytes } from '../../egress/answer.ts'
import { type Egress, EgressError } from '../../egress/egress.ts'
import { faultFinder } from '../../validation.ts'
import { secretRemover, secretsOfSettings } from '../alerts/channels/without-secrets.ts'

/** A missing or invalid response of a node. The message is one sentence without the node's address. */
export class RpcError extends Error {
  override name = 'RpcError'
  /**
   * 'revert': the contract refused the call; 'refused': the node refused it; 'contract': the address has no contract that can
   * do it; 'cost': a person has to confirm a higher cost; 'unsigned': the signer refused this transaction; 'large': the
   * response is too long to be read; otherwise a retry may succeed.
   */
  readonly kind: 'revert' | 'refused' | 'contract' | 'cost' | 'unsigned' | 'large' | 'unavailable' | 'wrong'

  constructor(message: string, kind: RpcError['kind']) {
    super(message)
    this.kind = kind
  }
}

/** Nodes respond in milliseconds. The sender's lease outlasts many such timeouts. */
export const rpcDeadlineMs = 10_000
const maxMessage = 200

// Limits on responses, whose total size the egress client limits to 64 KiB. None of our transactions logs more.
const Quantity = Type.String({ pattern: '^0x[0-9a-fA-F]{1,64}$' })
const Hash = Type.String({ pattern: '^0x[0-9a-fA-F]{64}$' })
const Address = Type.String({ pattern: '^0x[0-9a-fA-F]{40}$' })
export const Bytes = Type.String({ pattern: '^0x([0-9a-fA-F]{2})*$' })
const logFields = { address: Address, topics: Type.Array(Hash, { maxItems: 4 }), data: Bytes }

const schemas = {
  quantity: Quantity,
  hash: Hash,
  bytes: Bytes,
  fees: Type.Object({
    baseFeePerGas: Type.Array(Quantity, { minItems: 1, maxItems: 2 }),
    reward: Type.Optional(Type.Array(Type.Array(Quantity, { maxItems: 1 }), { maxItems: 1 })),
  }),
  receipt: Type.Object({
    transactionHash: Hash,
    blockHash: Hash,
    blockNumber: Quantity,
    from: Address,
    to: Type.Union([Address, Type.Null()]),
    status: Type.String({ pattern: '^0x[01]$' }),
    gasUsed: Quantity,
    effectiveGasPrice: Quantity,
    logs: Type.Array(Type.Object(logFields), { maxItems: 100 }),
  }),
  logs: Type.Array(Type.Object({ ...logFields, transactionHash: Hash, blockNumber: Quantity }), { maxItems: 200 }),
}

const checks = Object.fromEntries(
  Object.entries(schemas).map(([name, schema]) => [name, faultFinder(schema)]),
) as Record<keyof typeof schemas, (value: unknown) => string | undefined>

export interface Log {
  address: string
  topics: string[]
  data: string
}

/** A log with its transaction, as the node claims. */
export interface FoundLog extends Log {
  transactionHash: string
}

/** Blocks, both included. */
export interface BlockRange {
  from: number
  to: number
}

export interface Receipt {
  hash: string
  blockHash: string
  blockNumber: number
  ok: boolean
  /** Gas used, and the price of each unit in the chain's smallest unit, as the node claims. */
  paid: { gas: bigint; price: bigint }
  logs: Log[]
}

interface RawReceipt {
  transactionHash: string
  blockHash: string
  blockNumber: string
  from: string
  to: string | null
  status: string
  gasUsed: string
  effectiveGasPrice: string
  logs: Log[]
}

const hex = (value: number | bigint) => `0x${value.toString(16)}`
/** Whether two addresses or hashes are the same: nodes write them in any letter case. */
export const isSameHex = (one: string | null | undefined, other: string): boolean =>
  one?.toLowerCase() === other.toLowerCase()

/**
 * Errors of EAS 1.4.0 and its schema registry, and of the registries of ERC-8004 with OpenZeppelin's ERC-721, as far as our
 * calls can cause them. Nodes show no more than their first four bytes.
 */
const errors = parseAbi([
  'error AccessDenied()',
  'error AlreadyExists()',
  'error AlreadyRevoked()',
  'error InvalidExpirationTime()',
  'error InvalidSchema()',
  'error Irrevocable()',
  'error NotFound()',
  'error NotPayable()',
  'error ERC721InvalidReceiver(address receiver)',
  'error ERC721NonexistentToken(uint256 tokenId)',
  'error OwnableUnauthorizedAccount(address account)',
])

/** Returns ` (InvalidSchema)` for the data of a revert; empty if the error is not known. */
function errorName(data: unknown): string {
  if (typeof data !== 'string' || !/^0x([0-9a-fA-F]{2}){4,}$/.test(data)) return ''
  try {
    return ` (${decodeErrorResult({ abi: errors, data: data as Hex }).errorName})`
  } catch {
    return ''
  }
}

interface JsonRpcParts {
  url: string
  egress: Egress
  /** Aborts open requests. */
  end: AbortSignal | undefined
  /** Begins the sentences about its errors, such as `The RPC`. */
  name: string
}

/** JSON-RPC client for an untrusted server: each response is limited in size, validated and compared with the request. */
export class JsonRpc {
  readonly #parts: JsonRpcParts
  readonly #withoutUrl: (text: string) => string
  #id = 0

  constructor(parts: JsonRpcParts) {
    this.#parts = parts
    this.#withoutUrl = secretRemover(secretsOfSettings([parts.url]))
  }

  /** A server's text as it may be shown and logged: providers put keys into their URLs, and some nodes repeat the URL. */
  #said(text: string): string {
    return cutText(sanitize(this.#withoutUrl(text)), maxMessage, utf16Size)
  }

  /** Resolves with the result, of which `faultOf` finds what is wrong. Throws RpcError. */
  async ask(method: string, params: unknown[], faultOf: (result: unknown) => string | undefined): Promise<unknown> {
    const { url, egress, end, name } = this.#parts
    const id = ++this.#id
    const body = JSON.stringify({ jsonrpc: '2.0', id, method, params })
    const answer = await egress
      .post({ url, headers: { 'content-type': 'application/json' }, body }, end)
      .catch((fault) => {
        if (fault instanceof EgressError) throw new RpcError(`${name}: ${fault.message}`, 'unavailable')
        throw fault
      })
    let parsed: { id?: unknown; result?: unknown; error?: { code?: unknown; message?: unknown; data?: unknown } } | null
    try {
      parsed = JSON.parse(answer.body)
    } catch {
      throw new RpcError(
        `${name} answered ${method} with status ${answer.status} and no JSON of at most 64 KiB.`,
        Buffer.byteLength(answer.body) < maxAnswerBytes ? 'unavailable' : 'large',
      )
    }
    if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed))
      throw new RpcError(`${name} answered ${method} with JSON that is not a JSON-RPC response.`, 'wrong')
    if (typeof parsed.error === 'object' && parsed.error !== null) {
      const { code, data } = parsed.error
      // Converting any other JSON to text can throw, such as a thousand arrays in each other.
      const message = typeof parsed.error.message === 'string' ? parsed.error.message : 'without a message'
      const isRevert = code === 3 || /revert/i.test(message) || (typeof data === 'string' && data !== '0x')
      throw new RpcError(
        `${name} refused ${method}: ${this.#said(message)}${errorName(data)}`,
        isRevert ? 'revert' : 'refused',
      )
    }
    if (answer.status !== 200 || parsed.id !== id)
      throw new RpcError(`${name} answered a different request than ${method} (status ${answer.status}).`, 'wrong')
    if (faultOf(parsed.result) !== undefined)
      throw new RpcError(`${name} answered ${method} with a result that Ethereum's JSON-RPC does not define.`, 'wrong')
    return parsed.result
  }
}

/** Client for an untrusted node. */
export class Rpc {
  readonly #node: JsonRpc

  /** `end` aborts open requests. */
  constructor(url: string, egress: Egress, end?: AbortSignal) {
    this.#node = new JsonRpc({ url, egress, end, name: 'The RPC' })
  }

  #ask(method: string, params: unknown[], form: keyof typeof schemas, isNullable = false): Promise<unknown> {
    return this.#node.ask(method, params, (result) =>
      isNullable && result === null ? undefined : checks[form](result),
    )
  }

  async #number(method: string, params: unknown[] = []): Promise<number> {
    const value = Number(await this.#ask(method, params, 'quantity'))
    if (!Number.isSafeInteger(value)) throw new RpcError(`The RPC answered ${method} with too large a number.`, 'wrong')
    return value
  }

  chainId = () => this.#number('eth_chainId')
  /**
   * Throws when the node is of another chain: that chain could interpret a signed transaction differently, and what it
   * answers would be about other contracts.
   */
  async assertChain(chainId: number): Promise<void> {
    const found = await this.chainId()
    if (found !== chainId)
      throw new RpcError(
        `The RPC serves chain ${found}, TRUST_CHAIN_ID is ${chainId}: set TRUST_RPC_URL to a node of that chain.`,
        'wrong',
      )
  }
  head = () => this.#number('eth_blockNumber')
  nonce = (address: string, at: 'latest' | 'pending' = 'latest') =>
    this.#number('eth_getTransactionCount', [address, at])
  balance = async (address: string) =>
    BigInt((await this.#ask('eth_getBalance', [address, 'latest'], 'quantity')) as string)
  code = async (address: string) => (await this.#ask('eth_getCode', [address, 'latest'], 'bytes')) as string
  gas = (from: string, to: string, data: string) => this.#number('eth_estimateGas', [{ from, to, data }])
  /** Calls a view function, in the state after this block. */
  call = async (to: string, data: string, at: number | 'latest' = 'latest') =>
    (await this.#ask('eth_call', [{ to, data }, at === 'latest' ? at : hex(at)], 'bytes')) as string

  /** Logs of a contract with these topics, oldest first. Throws when one belongs to another question. */
  async logs(address: string, topics: readonly string[], { from, to }: BlockRange): Promise<FoundLog[]> {
    const filter = { address, topics, fromBlock: hex(from), toBlock: hex(to) }
    const found = (await this.#ask('eth_getLogs', [filter], 'logs')) as (FoundLog & { blockNumber: string })[]
    for (const log of found) {
      const block = Number(log.blockNumber)
      const isAsked = isSameHex(log.address, address) && topics.every((topic, at) => isSameHex(log.topics[at], topic))
      if (!isAsked || block < from || block > to)
        throw new RpcError('The RPC answered eth_getLogs with a log that was not asked for.', 'wrong')
    }
    return found
  }

  /** Fees of the next block: its base fee, and the median tip that others pay. */
  async fees(): Promise<{ base: bigint; tip: bigint }> {
    const { baseFeePerGas, reward } = (await this.#ask('eth_feeHistory', [hex(1), 'latest', [50]], 'fees')) as {
      baseFeePerGas: string[]
      reward?: string[][]
    }
    return { base: BigInt(baseFeePerGas.at(-1)!), tip: BigInt(reward?.[0]?.[0] ?? '0x0') }
  }

  /** Also resolves when the node already has the transaction. */
  async send(raw: string): Promise<void> {
    try {
      await this.#ask('eth_sendRawTransaction', [raw], 'hash')
    } catch (fault) {
      // Nodes word this error differently. The receipt shows later whether the transaction was accepted.
      const isKnown = fault instanceof RpcError && /already|known|nonce too low|underpriced/i.test(fault.message)
      if (!isKnown) throw fault
    }
  }

  /** Undefined while the transaction is in no block. Throws when the receipt belongs to another transaction. */
  async receipt(hash: string, from: string, to: string): Promise<Receipt | undefined> {
    const raw = (await this.#ask('eth_getTransactionReceipt', [hash], 'receipt', true)) as RawReceipt | null
    if (raw === null) return undefined
    if (!isSameHex(raw.transactionHash, hash) || !isSameHex(raw.from, from) || !isSameHex(raw.to, to))
      throw new RpcError('The RPC answered with the receipt of another transaction.', 'wrong')
    return {
      hash,
      blockHash: raw.blockHash,
      blockNumber: Number(raw.blockNumber),
      ok: raw.status === '0x1',
      paid: { gas: BigInt(raw.gasUsed), price: BigInt(raw.effectiveGasPrice) },
      logs: raw.logs,
    }
  }
}
