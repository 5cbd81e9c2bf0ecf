import type { Socket } from 'node:net'
import type { ControlChange } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { namedFrame } from '../../http/sse.ts'
import type { StreamBacklog } from '../../http/stream-backlog.ts'
import { readControlChanges } from '../audit/control-changes.ts'
import { keyNames } from '../keys/key-names.ts'

const pageRows = 100
/** Unsent bytes after which a client is cut: a page of its replay and as much again. It reads the list when it is back. */
const maxUnsentBytes = 128 * 1024

const changeFrame = (change: ControlChange) => namedFrame('control', JSON.stringify({ type: 'control', data: change }))

/**
 * Kills and resumes for the streams that ask for them. The audit log is the source: a control message only says that
 * there is something to read, so a message that is lost, doubled or forged shows nothing wrong.
 */
export class ControlFeed {
  readonly #deps: Deps
  readonly #backlog: StreamBacklog
  readonly #sockets = new Set<Socket>()
  /** Everything up to here was read. */
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

  /** From now on a client gets each change; perhaps one again that was made within the second before. */
  add(socket: Socket): void {
    this.#sockets.add(socket)
  }

  remove(socket: Socket): void {
    this.#sockets.delete(socket)
  }

  /** Reads what was committed since the last time, by any process, and sends it. */
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
