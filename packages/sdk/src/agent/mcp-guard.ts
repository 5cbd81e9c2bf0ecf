import type { Monitor } from '../monitor.ts'
import type { Piece } from './line-splitter.ts'
import { isAmbiguous } from './mcp-ambiguity.ts'
import { realPaths } from './real-paths.ts'

type Message = Record<string, unknown>

/** Decision on a message of the client. */
export interface Passage {
  /** Bytes for the server, unchanged where possible. */
  forward: Buffer | undefined
  /** Responses to the client in place of the server's. */
  answers: Message[]
}

interface PendingCall {
  toolName: string
  params: unknown
  startedAt: number
}

/** Limit for a client that does not wait for responses; beyond it the oldest call is reported without outcome. */
const maxPending = 1_000

const isMessage = (value: unknown): value is Message =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isCall = (message: unknown): message is Message => isMessage(message) && message.method === 'tools/call'

/** Key of a call. Ids are strings or numbers; a deeply nested value would exhaust the stack. */
const keyOf = (id: unknown): string | undefined =>
  typeof id === 'string' || typeof id === 'number' ? JSON.stringify(id) : undefined

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const failure = (code: number, message: string): Message => ({ jsonrpc: '2.0', id: null, error: { code, message } })
const unreadable = failure(
  -32700,
  'The security monitor cannot parse this message, and does not forward messages it has not checked.',
)
const tooLong = failure(-32600, 'The message is too long for the security monitor, and is not forwarded.')
const ambiguous = failure(
  -32600,
  'The message has two fields of the same name, or one whose name differs from a field of the protocol only in case. The security monitor does not forward it.',
)

/** `resultType` is required since revision 2026-07-28 of the protocol; earlier revisions do not define it. */
const denied = (id: unknown, reason: string): Message => ({
  jsonrpc: '2.0',
  id,
  result: { resultType: 'complete', isError: true, content: [{ type: 'text', text: reason }] },
})

/** Inspects messages of an MCP client: holds tool calls until they are allowed, and reports them. */
export class McpGuard {
  readonly #monitor: Monitor
  readonly #warn: (sentence: string) => void
  readonly #pending = new Map<string, PendingCall>()

  constructor(monitor: Monitor, warn: (sentence: string) => void) {
    this.#monitor = monitor
    this.#warn = warn
  }

  async pass(piece: Piece): Promise<Passage> {
    const { bytes, kind } = piece
    // Refuse long lines, otherwise an attacker could avoid the check by long arguments.
    if (kind !== 'line') return { forward: undefined, answers: kind === 'lastPart' ? [tooLong] : [] }
    const text = bytes.toString()
    const content = parsed(text)
    // Servers may read another message than the one that is checked here.
    if (typeof content === 'object' && content !== null && isAmbiguous(text, content)) {
      return { forward: undefined, answers: [ambiguous] }
    }
    if (Array.isArray(content)) return this.#passBatch(content, bytes)
    if (isMessage(content)) return this.#passBatch([content], bytes)
    // Some clients keep a connection alive by empty lines.
    if (text.trim() === '') return { forward: bytes, answers: [] }
    if (this.#monitor.failMode === 'closed') return { forward: undefined, answers: [unreadable] }
    this.#warn('A message of the client was forwarded unchecked.')
    return { forward: bytes, answers: [] }
  }

  /** Handles a batch (revisions before 2025-06-18), or a single message as a batch of one. */
  async #passBatch(messages: unknown[], bytes: Buffer): Promise<Passage> {
    const reasons = await Promise.all(messages.map((message) => (isCall(message) ? this.#denial(message) : undefined)))
    const forwarded = messages.filter((_, place) => reasons[place] === undefined)
    for (const message of forwarded) if (isCall(message)) this.#await(message)
    const answers = messages.flatMap((message, place) => {
      const { id } = message as Message
      if (reasons[place] === undefined || id === undefined) return []
      return [denied(keyOf(id) === undefined ? null : id, reasons[place])]
    })
    if (forwarded.length === messages.length) return { forward: bytes, answers }
    return { forward: forwarded.length > 0 ? Buffer.from(`${JSON.stringify(forwarded)}\n`) : undefined, answers }
  }

  async #denial({ params }: Message): Promise<string | undefined> {
    const cwd = process.cwd()
    const denial = await this.#monitor.guard({
      toolName: toolNameOf(params),
      args: [params, realPaths(params, cwd)],
      cwd,
    })
    return denial?.reason
  }

  #await({ id, params }: Message): void {
    const { arguments: args } = isMessage(params) ? params : {}
    const call = { toolName: toolNameOf(params), params: args, startedAt: performance.now() }
    const key = keyOf(id)
    if (key === undefined) this.#report(call)
    else this.#keep(key, call)
  }

  #keep(id: string, call: PendingCall): void {
    const [oldest] = this.#pending.size >= maxPending ? this.#pending.keys() : [id]
    this.#end(oldest!)
    this.#pending.set(id, call)
  }

  /** Finds responses to calls in the server's output. */
  see({ bytes, kind }: Piece): void {
    if (this.#pending.size === 0 || kind !== 'line') return
    const content = parsed(bytes.toString())
    for (const message of Array.isArray(content) ? content : [content]) {
      if (!isMessage(message) || message.method !== undefined) continue
      const { id, result, error } = message
      const key = keyOf(id)
      if (key !== undefined) this.#end(key, error === undefined && !(isMessage(result) && result.isError === true))
    }
  }

  /** Call when the server has ended: ends the calls without a response. */
  close(): void {
    for (const id of [...this.#pending.keys()]) this.#end(id, false)
  }

  #end(id: string, ok?: boolean): void {
    const call = this.#pending.get(id)
    if (!this.#pending.delete(id) || !call) return
    this.#report(call, ok === undefined ? {} : { ok, durationMs: performance.now() - call.startedAt })
  }

  #report({ toolName, params }: PendingCall, outcome: { ok?: boolean; durationMs?: number } = {}): void {
    void this.#monitor.reportToolCall({ toolName, params, ...outcome })
  }
}

function toolNameOf(params: unknown): string {
  const { name } = isMessage(params) ? params : {}
  return typeof name === 'string' && name !== '' ? name : 'unknown'
}
