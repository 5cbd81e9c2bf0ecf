import type { Socket } from 'node:net'
import type { Metrics } from '../metrics.ts'
import { httpLimits } from './limits.ts'

interface UnsentBytes {
  bytes: number
  /** Bytes that the socket had sent at the last check. */
  sent: number
}

const { unsentBytesPerStream, unsentBytes } = httpLimits

/** `bytesWritten` includes bytes still waiting to be sent. */
const sentBytes = (socket: Socket): number => socket.bytesWritten - socket.writableLength

/** Whether the client may be sent this many bytes. A client without unsent bytes accepts even a larger frame. */
export const fits = ({ writableLength }: Socket, bytes: number): boolean =>
  writableLength === 0 || writableLength + bytes <= unsentBytesPerStream

/** Limits the unsent bytes of all streams together, and ends streams whose clients do not read. */
export class StreamBacklog {
  readonly #metrics: Metrics
  readonly #limit: number
  /** Sockets that had unsent bytes after the last write; most have none. */
  readonly #unsent = new Map<Socket, UnsentBytes>()
  /** Upper estimate of all unsent bytes, recounted when it exceeds the limit. */
  #total = 0

  constructor(metrics: Metrics, limit: number = unsentBytes) {
    this.#metrics = metrics
    this.#limit = limit
  }

  write(socket: Socket, data: Buffer | string, flushed?: () => void): void {
    socket.write(data, flushed)
    const bytes = socket.destroyed ? 0 : socket.writableLength
    const unsent = this.#unsent.get(socket)
    if (unsent) {
      this.#total += bytes - unsent.bytes
      unsent.bytes = bytes
    } else if (bytes > 0) {
      this.#total += bytes
      this.#unsent.set(socket, { bytes, sent: -1 })
    }
    if (this.#total > this.#limit) this.#shed()
  }

  /** Call when the socket closes. */
  forget(socket: Socket): void {
    this.#total -= this.#unsent.get(socket)?.bytes ?? 0
    this.#unsent.delete(socket)
  }

  /** Ends the streams whose clients read nothing since the last call. */
  cutStalled(): void {
    this.#recount()
    for (const [socket, unsent] of this.#unsent) {
      const sent = sentBytes(socket)
      if (sent === unsent.sent) this.cut(socket, 'stalled')
      unsent.sent = sent
    }
  }

  /** Ends a stream; the client reconnects and resumes at its last event id. */
  cut(socket: Socket, reason: 'stalled' | 'memory' | 'error'): void {
    this.forget(socket)
    this.#metrics.streamCuts.inc({ reason })
    socket.destroy()
  }

  #recount(): void {
    this.#total = 0
    for (const [socket, unsent] of this.#unsent) {
      unsent.bytes = socket.writableLength
      this.#total += unsent.bytes
      if (unsent.bytes === 0) this.#unsent.delete(socket)
    }
  }

  /** Cuts the largest streams down to 75 % of the limit, so that the next write does not recount. */
  #shed(): void {
    this.#recount()
    if (this.#total <= this.#limit) return
    for (const [socket] of [...this.#unsent].sort(([, left], [, right]) => right.bytes - left.bytes)) {
      if (this.#total <= 0.75 * this.#limit) return
      this.cut(socket, 'memory')
    }
  }
}
