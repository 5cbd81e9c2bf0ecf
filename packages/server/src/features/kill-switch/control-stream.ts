import type { Socket } from 'node:net'
import type { ControlMessage } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { httpLimits } from '../../http/limits.ts'
import { closeEventStream, firstFrame, frame, openEventStream, type StreamReply } from '../../http/sse.ts'
import { controlMessage } from './control-message.ts'
import type { KnownState } from './control-states.ts'

interface Subscriber {
  socket: Socket
  keyId: string
  /** The last version sent: a lower one never follows. */
  version: number
}

/** An agent that reads nothing of a few hundred bytes a change is gone; it reconnects and reads the state anew. */
const maxUnsentBytes = 64 * 1024

/** The agents that listen for their own control messages. */
export class ControlStream {
  readonly #deps: Deps
  readonly #byInstance = new Map<string, Set<Subscriber>>()
  #count = 0

  constructor(deps: Deps) {
    this.#deps = deps
    deps.bus.onControl((message) => this.#deliver(message))
  }

  /** Sends the current state, then every change. Throws AppError `overloaded` when every place is taken. */
  subscribe(reply: StreamReply, instanceId: string, { version, state }: KnownState, keyId: string): void {
    if (this.#count >= httpLimits.streams) throw new AppError('overloaded', 'Too many streams are open.', 5)
    const message = controlMessage(
      instanceId,
      { version, ...state },
      this.#deps.clock.now(),
      this.#deps.secrets.controlKey,
    )
    const socket = openEventStream(reply)
    if (!socket) return
    socket.write(firstFrame(JSON.stringify(message)))
    const subscriber = { socket, keyId, version }
    const subscribers = this.#byInstance.get(instanceId) ?? new Set()
    this.#byInstance.set(instanceId, subscribers.add(subscriber))
    this.#changeCount(1)
    socket.on('close', () => {
      subscribers.delete(subscriber)
      if (subscribers.size === 0) this.#byInstance.delete(instanceId)
      this.#changeCount(-1)
    })
  }

  /** Ends the streams of keys that are no longer valid. */
  endInvalid(isValid: (keyId: string) => boolean): void {
    for (const { socket, keyId } of this.#all()) if (!isValid(keyId)) socket.destroySoon()
  }

  /** Keeps connections open through proxies. */
  keepAlive(): void {
    for (const { socket } of this.#all()) socket.write(':\n\n')
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
    const text = frame(JSON.stringify(message), message.version)
    for (const subscriber of subscribers) {
      if (message.version <= subscriber.version) continue
      subscriber.version = message.version
      subscriber.socket.write(text)
      if (subscriber.socket.writableLength > maxUnsentBytes) subscriber.socket.destroy()
    }
  }
}
