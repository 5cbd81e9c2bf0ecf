import type { Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type ControlMessage, type StreamedKind, streamedKinds } from '@wardline/contract'
import type { Notice } from '../../bus/notice.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { Holder } from '../../http/auth.ts'
import { httpLimits } from '../../http/limits.ts'
import { closeEventStream, firstFrame, frame, openEventStream, type StreamReply } from '../../http/sse.ts'
import { fits, type StreamBacklog } from '../../http/stream-backlog.ts'
import type { SuspensionFacts } from '../suspensions/suspension-facts.ts'
import { controlMessage } from './control-message.ts'
import type { KnownState } from './control-states.ts'

/** Streams written in a turn of the event loop: a few milliseconds. */
const announcedAtOnce = 200

interface Subscriber {
  socket: Socket
  holder: Holder
  /** Whether messages sent to it count as delivered to the agent. */
  isAgent: boolean
  /** Last version sent. Lower versions are not sent after it. */
  version: number
  /** Kinds of messages beyond control messages that the client asked for. */
  understands: readonly StreamedKind[]
  /** Epoch milliseconds. */
  openedAt: number
}

interface Subscription {
  instanceId: string
  known: KnownState
  holder: Holder
  /** False for a person who watches the stream. */
  isAgent: boolean
  /** Empty for a person. */
  understands: readonly StreamedKind[]
}

/** Control streams of this process: agents that listen for their own control messages. */
export class ControlStream {
  readonly #deps: Deps
  readonly #backlog: StreamBacklog
  readonly #facts: Pick<SuspensionFacts, 'noteDelivered'>
  readonly #byInstance = new Map<string, Set<Subscriber>>()
  #count = 0
  #changed: (instanceId: string) => void = () => {}

  constructor(deps: Deps, backlog: StreamBacklog, facts: Pick<SuspensionFacts, 'noteDelivered'>) {
    this.#deps = deps
    this.#backlog = backlog
    this.#facts = facts
    deps.bus.onControl((message) => this.#deliver(message))
    deps.bus.onNotice((notice) => this.#pass(notice))
  }

  /**
   * Sends the current state, then every change, and other messages of the kinds that the client understands. Throws
   * AppError `overloaded` when the maximum number of streams is open.
   */
  subscribe(reply: StreamReply, { instanceId, known, holder, isAgent, understands }: Subscription): void {
    const { version, issuedAt, state } = known
    if (this.#count >= httpLimits.streams) throw new AppError('overloaded', 'Too many streams are open.', 5)
    const message = controlMessage(instanceId, { version, ...state }, issuedAt, this.#deps.controlSigner)
    const socket = openEventStream(reply)
    if (!socket) return
    socket.write(firstFrame(JSON.stringify(message)))
    if (state.suspended && isAgent) this.#facts.noteDelivered(instanceId, version, issuedAt, 'stream')
    const subscriber = { socket, holder, isAgent, version, understands, openedAt: this.#deps.clock.now() }
    const subscribers = this.#byInstance.get(instanceId) ?? new Set()
    this.#byInstance.set(instanceId, subscribers.add(subscriber))
    this.#changeCount(1)
    this.#changed(instanceId)
    socket.on('close', () => {
      this.#backlog.forget(socket)
      subscribers.delete(subscriber)
      if (subscribers.size === 0) this.#byInstance.delete(instanceId)
      this.#changeCount(-1)
      this.#changed(instanceId)
    })
  }

  /** Whether an agent of this instance has a stream open on this process. */
  has(instanceId: string): boolean {
    return this.understood(instanceId) !== undefined
  }

  /** Kinds that at least one stream of the agent understands; undefined if it has no stream. */
  understood(instanceId: string): StreamedKind[] | undefined {
    const ofAgent = [...(this.#byInstance.get(instanceId) ?? [])].filter(({ isAgent }) => isAgent)
    if (ofAgent.length === 0) return undefined
    return streamedKinds.filter((kind) => ofAgent.some(({ understands }) => understands.includes(kind)))
  }

  /** Instances with a stream that understands this kind, and when the first of these streams was opened. */
  *listening(kind: StreamedKind): Generator<[instanceId: string, openedAt: number]> {
    for (const [instanceId, subscribers] of this.#byInstance) {
      for (const { understands, openedAt } of subscribers) {
        if (!understands.includes(kind)) continue
        yield [instanceId, openedAt]
        break
      }
    }
  }

  /** Sends a message to those streams of an instance that understand its kind. */
  send(instanceId: string, kind: StreamedKind, json: string): void {
    const text = frame(json)
    for (const { socket, understands } of this.#byInstance.get(instanceId) ?? []) {
      if (understands.includes(kind) && fits(socket, text.length)) this.#backlog.write(socket, text)
    }
  }

  /** Calls the listener with the instance whenever a stream opens or closes. */
  onChange(listener: (instanceId: string) => void): void {
    this.#changed = listener
  }

  *holders(): Generator<Holder> {
    for (const { holder } of this.#all()) yield holder
  }

  /** Ends the streams of keys and sessions that are no longer valid. */
  endInvalid(isValid: (holder: Holder) => boolean): void {
    for (const { socket, holder } of this.#all()) if (!isValid(holder)) socket.destroySoon()
  }

  /** Keeps connections open through proxies. */
  keepAlive(): void {
    for (const { socket } of this.#all()) if (socket.writableLength === 0) this.#backlog.write(socket, ':\n\n')
  }

  close(delayMs: () => number): void {
    for (const { socket } of this.#all()) closeEventStream(socket, delayMs())
  }

  *#all(): Generator<Subscriber> {
    for (const subscribers of this.#byInstance.values()) yield* subscribers
  }

  #changeCount(by: number): void {
    this.#count += by
    this.#deps.metrics.streamClients.set({ kind: 'control' }, this.#count)
  }

  #pass(notice: Notice): void {
    if (notice.action === 'approval') this.send(notice.instance_id, 'approval', JSON.stringify(notice))
    if (notice.action === 'policy') void this.#announce(notice.version)
  }

  /** Sends the version of the policies to every agent, in portions, so that no kill waits for thousands of writes. */
  async #announce(version: number): Promise<void> {
    const ids = [...this.listening('policy')].map(([instanceId]) => instanceId)
    for (let start = 0; start < ids.length; start += announcedAtOnce) {
      if (start > 0) await nextTurn()
      for (const instance_id of ids.slice(start, start + announcedAtOnce)) {
        this.send(instance_id, 'policy', JSON.stringify({ action: 'policy', instance_id, version }))
      }
    }
  }

  #deliver(message: ControlMessage): void {
    const subscribers = this.#byInstance.get(message.instance_id)
    if (!subscribers) return
    // The HMAC authenticates messages of the bus, but it does not cover the signature for agents: sign again.
    const signature_ed25519 = this.#deps.controlSigner.agentSignature(message)
    const text = frame(JSON.stringify({ ...message, signature_ed25519 }), message.version)
    let isDelivered = false
    for (const subscriber of subscribers) {
      if (message.version <= subscriber.version) continue
      subscriber.version = message.version
      // A subscriber that does not read a few hundred bytes per change is gone. It reconnects and reads the current state.
      if (fits(subscriber.socket, text.length)) {
        this.#backlog.write(subscriber.socket, text)
        isDelivered ||= subscriber.isAgent && !subscriber.socket.destroyed
      } else this.#backlog.cut(subscriber.socket, 'stalled')
    }
    if (isDelivered && message.action === 'suspend') {
      this.#facts.noteDelivered(message.instance_id, message.version, Date.parse(message.issued_at), 'stream')
    }
  }
}
