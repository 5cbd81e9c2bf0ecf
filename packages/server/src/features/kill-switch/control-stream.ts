import type { Socket } from 'node:net'
import type { ControlMessage } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { Holder } from '../../http/auth.ts'
import { httpLimits } from '../../http/limits.ts'
import { closeEventStream, firstFrame, frame, openEventStream, type StreamReply } from '../../http/sse.ts'
import { fits, type StreamBacklog } from '../../http/stream-backlog.ts'
import { controlMessage } from './control-message.ts'
import type { KnownState } from './control-states.ts'

interface Subscriber {
  socket: Socket
  holder: Holder
  /** The last version sent: a lower one never follows. */
  version: number
}

/** The agents that listen for their own control messages. */
export class ControlStream {
  readonly #deps: Deps
  readonly #backlog: StreamBacklog
  readonly #byInstance = new Map<string, Set<Subscriber>>()
  #count = 0

  constructor(deps: Deps, backlog: StreamBacklog) {
    this.#deps = deps
    this.#backlog = backlog
    deps.bus.onControl((message) => this.#deliver(message))
  }

  /** Sends the current state, then every change. Throws AppError `overloaded` when every place is taken. */
  subscribe(reply: StreamReply, instanceId: string, { version, issuedAt, state }: KnownState, holder: Holder): void {
    if (this.#count >= httpLimits.streams) throw new AppError('overloaded', 'Too many streams are open.', 5)
    const message = controlMessage(instanceId, { version, ...state }, issuedAt, this.#deps.controlSigner)
    const socket = openEventStream(reply)
    if (!socket) return
    socket.write(firstFrame(JSON.stringify(message)))
    const subscriber = { socket, holder, version }
    const subscribers = this.#byInstance.get(instanceId) ?? new Set()
    this.#byInstance.set(instanceId, subscribers.add(subscriber))
    this.#changeCount(1)
    socket.on('close', () => {
      this.#backlog.forget(socket)
      subscribers.delete(subscriber)
      if (subscribers.size === 0) this.#byInstance.delete(instanceId)
      this.#changeCount(-1)
    })
  }

  /** Whether an agent of this instance listens to this process. */
  has(instanceId: string): boolean {
    return this.#byInstance.has(instanceId)
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

  #deliver(message: ControlMessage): void {
    const subscribers = this.#byInstance.get(message.instance_id)
    if (!subscribers) return
    // What came over the bus is proved by the HMAC, which does not cover the signature for agents.
    const signature_ed25519 = this.#deps.controlSigner.agentSignature(message)
    const text = frame(JSON.stringify({ ...message, signature_ed25519 }), message.version)
    for (const subscriber of subscribers) {
      if (message.version <= subscriber.version) continue
      subscriber.version = message.version
      // An agent that reads nothing of a few hundred bytes a change is gone; it reconnects and reads the current state.
      if (fits(subscriber.socket, text.length)) this.#backlog.write(subscriber.socket, text)
      else this.#backlog.cut(subscriber.socket, 'stalled')
    }
  }
}
