import { workingFolder } from '../decoy-checks.ts'
import type { Denial } from '../denied.ts'
import { suspendedReason } from '../denied.ts'
import { contentOf } from '../guarded-call.ts'
import type { ListedTool, Monitor, ToolCall } from '../monitor.ts'
import type { Piece } from './line-splitter.ts'
import { isMessage, type Message, messagesIn, parsed, type Reading, toolCall } from './mcp-messages.ts'
import { realPaths } from './real-paths.ts'
import { type Listed, maxTools, ToolListing } from './tool-listing.ts'

/** Decision on a message of the client. */
export interface Passage {
  /** Bytes for the server, unchanged where possible. */
  forward: Buffer | undefined
  /** Responses to the client in place of the server's. */
  answers: Message[]
  /** Resolves with the passage of a call that waits for a person; the messages after it do not wait. */
  later?: Promise<() => Passage>
}

interface PendingCall {
  toolName: string
  params: unknown
  startedAt: number
}

/** Limit for a client that does not wait for responses; beyond it the oldest call is reported without outcome. */
const maxPending = 1_000

/** Calls that wait for people at the same time: as many as the service takes of one agent. */
const maxHeld = 50
/** How long a call waits in the proxy. Then the client reads the id of the approval and may retry. */
const maxHoldMs = 600_000
/** Between notifications of progress: clients give up on a request after a minute without a sign of it. */
const progressMs = 5_000
/** Listings of tools whose answer is awaited. */
const maxListings = 100
/** The name of the list is found in so many bytes of an answer that is too long to be read. */
const maxBytesToList = 1024

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
  readonly #toClient: (message: Message) => void
  readonly #pending = new Map<string, PendingCall>()
  /** Calls that are checked or wait for people, by id: ends the waiting. */
  readonly #held = new Map<string, AbortController>()
  #hasLeft = false
  /** Listings whose answer is awaited, by id: whether the first page was asked for. */
  readonly #listings = new Map<string, boolean>()
  readonly #listing = new ToolListing()
  readonly #tools = new Map<string, ListedTool>()

  readonly #onListed: (tools: Listed) => void

  /** `toClient` sends a notification to the client. `onListed` gets each listing that has ended. */
  constructor(
    monitor: Monitor,
    {
      warn,
      toClient,
      onListed,
    }: {
      warn: (sentence: string) => void
      toClient: (message: Message) => void
      onListed: (tools: Listed) => void
    },
  ) {
    this.#onListed = onListed
    this.#monitor = monitor
    this.#warn = warn
    this.#toClient = toClient
  }

  /** Checks a line, and returns how it passes once its turn comes. */
  async check({ bytes, kind }: Piece): Promise<() => Passage> {
    // Refuse long lines, otherwise an attacker could avoid the check by long arguments.
    if (kind === 'part') return () => ({ forward: undefined, answers: [] })
    const messages = kind === 'line' ? messagesIn(bytes) : 'tooLong'
    if (typeof messages === 'string') return () => this.#refuse(refusals[messages])
    for (const message of messages) this.#note(message)
    const [only] = messages
    if (messages.length === 1 && only && isCall(only)) return this.#checkCall(only, bytes)
    const denials = await Promise.all(messages.map((message) => (isCall(message) ? this.#denial(message) : undefined)))
    return () => this.#pass(messages, denials, bytes)
  }

  /** Checks a call. If it has to wait for a person, and its client can be shown progress, the others do not wait for it. */
  async #checkCall(message: Message, bytes: Buffer): Promise<() => Passage> {
    const key = keyOf(message.id)
    const token = progressTokenOf(message.params)
    if (key === undefined || token === undefined || this.#held.size >= maxHeld || this.#held.has(key)) {
      const denial = await this.#denial(message)
      return () => this.#pass([message], [denial], bytes)
    }
    const waiting = new AbortController()
    const { signal } = waiting
    let show: NodeJS.Timeout | undefined
    let hold = (_held: 'held') => {}
    const held = new Promise<'held'>((resolve) => {
      hold = resolve
    })
    const onWait = (id: string) => {
      if (this.#hasLeft) waiting.abort(cancelled)
      show = this.#showProgress(token, id, waiting)
      hold('held')
    }
    // The client may cancel before the service has answered that the call waits.
    this.#held.set(key, waiting)
    const checked = this.#denial(message, { onWait, signal }).finally(() => this.#held.delete(key))
    const first = await Promise.race([held, checked])
    if (first !== 'held') return () => this.#pass([message], [first], bytes)
    const later = checked.then((denial) => () => {
      clearInterval(show)
      // Of a request that the client has cancelled, it expects no answer.
      return signal.reason === cancelled ? nothing : this.#pass([message], [denial], bytes)
    })
    return () => ({ ...nothing, later })
  }

  #showProgress(progressToken: string | number, approvalId: string, waiting: AbortController): NodeJS.Timeout {
    const startedAt = performance.now()
    let progress = 0
    const show = () => {
      progress += 1
      const params = { progressToken, progress, message: `Waiting for a person: approval ${approvalId}` }
      this.#toClient({ jsonrpc: '2.0', method: 'notifications/progress', params })
      if (performance.now() - startedAt > maxHoldMs) waiting.abort()
    }
    show()
    return setInterval(show, progressMs)
  }

  /** Notes what the client asks the server for besides calls. */
  #note({ method, id, params }: Message): void {
    const key = keyOf(id)
    if (method === 'tools/list' && key !== undefined && this.#listings.size < maxListings)
      this.#listings.set(key, !isMessage(params) || params.cursor === undefined)
    if (method !== 'notifications/cancelled' || !isMessage(params)) return
    this.#held.get(keyOf(params.requestId) ?? '')?.abort(cancelled)
  }

  /** Call when the client has gone: nobody waits for a person any more. */
  leave(): void {
    this.#hasLeft = true
    for (const waiting of this.#held.values()) waiting.abort(cancelled)
  }

  /** Refuses in every fail mode: the author of a call may have chosen its form. */
  #refuse(answer: Message): Passage {
    const { message } = answer.error as { message: string }
    this.#warn(`A message of the client was refused. ${message}`)
    return { forward: undefined, answers: [answer] }
  }

  #pass(messages: readonly Message[], checked: readonly (Denial | undefined)[], bytes: Buffer): Passage {
    // The agent may have been suspended while the line waited for a server that does not read.
    const { suspended, health } = this.#monitor
    const now = suspended ? suspendedReason(health.reason) : undefined
    const reasons = messages.map((message, place) => checked[place]?.reason ?? (isCall(message) ? now : undefined))
    const allowed = messages.filter((_, place) => reasons[place] === undefined)
    const answers = messages.flatMap(({ id }, place) => {
      if (reasons[place] === undefined || id === undefined) return []
      return [denied(keyOf(id) === undefined ? null : id, reasons[place])]
    })
    const forward = allowed.length === messages.length ? bytes : batchOf(allowed)
    if (forward) for (const message of allowed) if (isCall(message)) this.#await(message)
    return { forward, answers }
  }

  #denial(
    { params }: Message,
    waiting?: { onWait: (id: string) => void; signal: AbortSignal },
  ): Promise<Denial | undefined> {
    const cwd = workingFolder()
    return this.#monitor.guard({
      toolName: toolNameOf(params),
      args: argumentsOf(params),
      decoyArgs: [params, realPaths(params, cwd)],
      cwd,
      ...(waiting ?? { onAsk: 'deny' }),
    })
  }

  #await({ id, params }: Message): void {
    const call = { toolName: toolNameOf(params), params: argumentsOf(params), startedAt: performance.now() }
    const key = keyOf(id)
    if (key === undefined) this.#report(call)
    else this.#keep(key, call)
  }

  #keep(id: string, call: PendingCall): void {
    const [oldest] = this.#pending.size >= maxPending ? this.#pending.keys() : [id]
    this.#end(oldest!)
    this.#pending.set(id, call)
  }

  /** Finds responses to calls and listings in the server's output. */
  see({ bytes, kind }: Piece): void {
    if (this.#pending.size + this.#listings.size === 0) return
    const isLongList = this.#listings.size > 0 && bytes.subarray(0, maxBytesToList).includes('"tools"')
    if (kind !== 'line' && isLongList) this.#onListed('none')
    if (kind !== 'line') return
    const content = parsed(bytes.toString())
    for (const message of Array.isArray(content) ? content : [content]) {
      if (!isMessage(message) || message.method !== undefined) continue
      const { id, result, error } = message
      const key = keyOf(id)
      const ok = error === undefined && !(isMessage(result) && result.isError === true)
      if (key === undefined) continue
      const isFirst = this.#listings.get(key)
      if (isFirst !== undefined) {
        this.#listings.delete(key)
        this.#learnTools(result, isFirst)
      }
      this.#end(key, { ok, result: contentOf(result) })
    }
  }

  /** A listing may come in pages, and a later one changes the tools of its names. */
  #learnTools(result: unknown, isFirst: boolean): void {
    const { tools } = isMessage(result) ? result : {}
    if (!Array.isArray(tools)) return
    for (const tool of tools.slice(0, maxTools)) {
      const { name } = isMessage(tool) ? tool : {}
      if (typeof name === 'string' && (this.#tools.size < maxTools || this.#tools.has(name)))
        this.#tools.set(name, tool)
    }
    this.#monitor.learnTools([...this.#tools.values()])
    const listed = this.#listing.add(result, isFirst)
    if (listed) this.#onListed(listed)
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

const cancelled = new Error('cancelled by the client')
const nothing: Passage = { forward: undefined, answers: [] }

/** By which the client wants to hear of progress. */
function progressTokenOf(params: unknown): string | number | undefined {
  const { _meta: meta } = isMessage(params) ? params : {}
  const { progressToken: token } = isMessage(meta) ? meta : {}
  return typeof token === 'string' || typeof token === 'number' ? token : undefined
}

const argumentsOf = (params: unknown): unknown => (isMessage(params) ? params.arguments : undefined)

function toolNameOf(params: unknown): string {
  const { name } = isMessage(params) ? params : {}
  return typeof name === 'string' && name !== '' ? name : 'unknown'
}
