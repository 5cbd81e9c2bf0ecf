import type { Socket } from 'node:net'
import type { ControlChange } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { namedFrame } from '../../http/sse.ts'
import type { StreamBacklog } from '../../http/stream-backlog.ts'
import { readControlChanges } from '../audit/control-changes.ts'
import { keyNames } from '../keys/key-names.ts'

const pageRows = 100
/**
 * A client with more unsent bytes is disconnected: one page of its replay and as much again. After reconnecting, it
 * reads the list.
 */
const maxUnsentBytes = 128 * 1024

const changeFrame = (change: ControlChange) => namedFrame('control', JSON.stringify({ type: 'control', data: change }))

/**
 * Sends kills and resumes to the streams that request them. The audit log is the source: a control message only
 * triggers a read of it, so lost, duplicated or forged messages never show a false change.
 */
export class ControlFeed {
  readonly #deps: Deps
  readonly #backlog: StreamBacklog
  readonly #sockets = new Set<Socket>()
  /** Last audit seq read. */
  #seq = 0
  #isOpen = false
  #isDue = false
  #reading: Promise<void> | undefined

  constructor(deps: Deps, backlog: StreamBacklog) {
    this.#deps = deps
    this.#backlog = backlog
    deps.bus.onControl(() => {
      if (this.#sockets.size === 0) return
      this.reconcile().catch((fault) =>
        deps.log.warn({ err: fault }, 'kills and resumes could not be read for the stream; retrying in a second'),
      )
    })
  }

  /** Starts after the newest change. */
  async open(): Promise<void> {
    const [newest] = await readControlChanges(this.#deps.database.db, keyNames, {}, 'newest', 1)
    this.#seq = newest?.seq ?? 0
    this.#isOpen = true
  }

  /** Adds a client for all further changes. It may receive a change from the last second twice. */
  add(socket: Socket): void {
    this.#sockets.add(socket)
  }

  remove(socket: Socket): void {
    this.#sockets.delete(socket)
  }

  /** Reads and sends the changes that any process committed since the last read. */
  reconcile(): Promise<void> {
    this.#isDue = true
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  close(): void {
    this.#isOpen = false
  }

  async #read(): Promise<void> {
    while (this.#isDue && this.#isOpen) {
      this.#isDue = false
      const changes = await readControlChanges(
        this.#deps.database.db,
        keyNames,
        { after: this.#seq },
        'oldest',
        pageRows,
      )
      if (changes.length === 0) continue
      this.#seq = changes.at(-1)!.seq
      this.#send(Buffer.from(changes.map(changeFrame).join('')))
      if (changes.length === pageRows) this.#isDue = true
    }
  }

  #send(bytes: Buffer): void {
    for (const socket of this.#sockets) {
      if (socket.writableLength > maxUnsentBytes) this.#backlog.cut(socket, 'stalled')
      else this.#backlog.write(socket, bytes)
    }
  }
}
