import { workingFolder } from '../decoy-checks.ts'
import { suspendedReason } from '../denied.ts'
import { contentOf } from '../guarded-call.ts'
import type { Monitor, ToolCall } from '../monitor.ts'
import type { Piece } from './line-splitter.ts'
import { isMessage, type Message, messagesIn, parsed, type Reading, toolCall } from './mcp-messages.ts'
import { realPaths } from './real-paths.ts'

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

const isCall = ({ method }: Message): boolean => method === toolCall

/** Key of a call. Ids are strings or numbers; a deeply nested value would exhaust the stack. */
const keyOf = (id: unknown): string | undefined =>
  typeof id === 'string' || typeof id === 'number' ? JSON.stringify(id) : undefined

const refusal = (code: number, why: string): Message => ({
  jsonrpc: '2.0',
  id: null,
  error: { code, message: `${why} The security monitor does not forward it.` },
})
const refusals: Record<Exclude<Reading, Message[]> | 'tooLong', Message> = {
  tooLong: refusal(-32600, 'The message is too long.'),
  unreadable: refusal(-32700, 'The line is not one JSON text in UTF-8.'),
  invalid: refusal(-32600, 'The line is not a message of JSON-RPC, or a batch of them.'),
  ambiguous: refusal(
    -32600,
    'The message has two fields of the same name, or a field or method that differs from one of the protocol only in case or by zero-width characters.',
  ),
}

/** `resultType` is required since revision 2026-07-28 of the protocol; earlier revisions do not define it. */
const denied = (id: unknown, reason: string): Message => ({
  jsonrpc: '2.0',
  id,
  result: { resultType: 'complete', isError: true, content: [{ type: 'text', text: reason }] },
})

/** Undefined without messages, and for those that are nested deeper than the stack allows: no server could read them. */
function batchOf(messages: Message[]): Buffer | undefined {
  try {
    return messages.length > 0 ? Buffer.from(`${JSON.stringify(messages)}\n`) : undefined
  } catch {
    return undefined
  }
}

/** Inspects messages of an MCP client: holds tool calls until they are allowed, and reports them. */
export class McpGuard {
  readonly #monitor: Monitor
  readonly #warn: (sentence: string) => void
  readonly #pending = new Map<string, PendingCall>()

  constructor(monitor: Monitor, warn: (sentence: string) => void) {
    this.#monitor = monitor
    this.#warn = warn
  }

  /** Checks a line, and returns how it passes once its turn comes. */
  async check({ bytes, kind }: Piece): Promise<() => Passage> {
    // Refuse long lines, otherwise an attacker could avoid the check by long arguments.
    if (kind === 'part') return () => ({ forward: undefined, answers: [] })
    const messages = kind === 'line' ? messagesIn(bytes) : 'tooLong'
    if (typeof messages === 'string') return () => this.#refuse(refusals[messages])
    const reasons = await Promise.all(messages.map((message) => (isCall(message) ? this.#denial(message) : undefined)))
    return () => this.#pass(messages, reasons, bytes)
  }

  /** Refuses in every fail mode: the author of a call may have chosen its form. */
  #refuse(answer: Message): Passage {
    const { message } = answer.error as { message: string }
    this.#warn(`A message of the client was refused. ${message}`)
    return { forward: undefined, answers: [answer] }
  }

  #pass(messages: readonly Message[], checked: readonly (string | undefined)[], bytes: Buffer): Passage {
    // The agent may have been suspended while the line waited for a server that does not read.
    const { suspended, health } = this.#monitor
    const now = suspended ? suspendedReason(health.reason) : undefined
    const reasons = messages.map((message, place) => checked[place] ?? (isCall(message) ? now : undefined))
    const allowed = messages.filter((_, place) => reasons[place] === undefined)
    const answers = messages.flatMap(({ id }, place) => {
      if (reasons[place] === undefined || id === undefined) return []
      return [denied(keyOf(id) === undefined ? null : id, reasons[place])]
    })
    const forward = allowed.length === messages.length ? bytes : batchOf(allowed)
    if (forward) for (const message of allowed) if (isCall(message)) this.#await(message)
    return { forward, answers }
  }

  async #denial({ params }: Message): Promise<string | undefined> {
    const cwd = workingFolder()
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
      const ok = error === undefined && !(isMessage(result) && result.isError === true)
      if (key !== undefined) this.#end(key, { ok, result: contentOf(result) })
    }
  }

  /** Call when the server has ended: ends the calls without a response. */
  close(): void {
    for (const id of [...this.#pending.keys()]) this.#end(id, { ok: false })
  }

  #end(id: string, outcome?: { ok: boolean; result?: unknown }): void {
    const call = this.#pending.get(id)
    if (!this.#pending.delete(id) || !call) return
    this.#report(call, outcome && { ...outcome, durationMs: performance.now() - call.startedAt })
  }

  #report({ toolName, params }: PendingCall, outcome?: Pick<ToolCall, 'ok' | 'result' | 'durationMs'>): void {
    void this.#monitor.reportToolCall({ toolName, params, ...outcome })
  }
}

function toolNameOf(params: unknown): string {
  const { name } = isMessage(params) ? params : {}
  return typeof name === 'string' && name !== '' ? name : 'unknown'
}
