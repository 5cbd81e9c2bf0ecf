import type { Socket } from 'node:net'
import { type EventFields, eventRowJson, type OutsideEvent } from '../../bus/event-row.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { httpLimits } from '../../http/limits.ts'
import { closeEventStream, firstFrame, frame, openEventStream, type StreamReply } from '../../http/sse.ts'
import { EventSequence } from './event-sequence.ts'
import { readEventsAfter } from './queries.ts'
import { RecentEvents } from './recent-events.ts'
import { StatsPush } from './stats-push.ts'

/** Rows replayed at most: the stream may be open to everybody, the whole history is for key holders (GET /api/events). */
const maxReplayRows = 10_000
const replayPageRows = 250
/** A client that takes nothing for this long is cut; it resumes where it was. */
const maxStalledMs = 30_000
/** Bytes that wait for one client before it leaves the live round and reads at its own pace. */
const maxUnsentBytes = 256 * 1024

const heartbeat = '{"type":"heartbeat"}'
const eventFrame = (row: EventFields) => frame(`{"type":"event","data":${eventRowJson(row)}}`, Number(row.seq))
/** Without an `id:`, so that it leaves no mark on where a client resumes. */
const outsideFrame = (row: OutsideEvent) => frame(`{"type":"event","data":${eventRowJson(row)}}`)

const framesAfter = (rows: readonly EventFields[], seq: number) =>
  rows
    .filter((row) => Number(row.seq) > seq)
    .map(eventFrame)
    .join('')

/** As many frames as may wait for one slow client. */
function pageOf(rows: readonly EventFields[]): { text: string; lastSeq: number | undefined } {
  let text = ''
  let lastSeq: number | undefined
  for (const row of rows) {
    if (text.length > maxUnsentBytes) break
    text += eventFrame(row)
    lastSeq = Number(row.seq)
  }
  return { text, lastSeq }
}

interface Client {
  socket: Socket
  address: string
  keyId: string
  /** The last seq written to it. */
  seq: number
  /** In the live round; otherwise it catches up from memory or the database. */
  live: boolean
}

/** The live feed: one encoding per message for all clients, one write per client and turn. */
export class EventStream {
  readonly #deps: Deps
  readonly #clients = new Set<Client>()
  readonly #perAddress = new Map<string, number>()
  readonly #recent = new RecentEvents()
  readonly #sequence: EventSequence
  readonly #stats: StatsPush
  #unsent: EventFields[] = []
  #unsentOutside: OutsideEvent[] = []
  #flushing = false

  constructor(deps: Deps) {
    this.#deps = deps
    this.#stats = new StatsPush(deps, (bytes) => this.#writeToLive(bytes))
    this.#sequence = new EventSequence(
      deps,
      (row) => this.#append(row),
      () => this.#recent.clear(),
    )
  }

  /** Starts at the newest stored event. */
  async open(): Promise<void> {
    if (this.#deps.bus.state !== 'in-process') {
      // The validator takes a tenth of a second to load, which only those pay who have a backplane.
      const { hearOutsideEvents } = await import('./outside-events.ts')
      hearOutsideEvents(this.#deps, (row) => this.#receiveOutside(row))
    }
    await this.#sequence.open()
  }

  /** Shows what other processes stored unheard. */
  reconcile(): Promise<void> {
    return this.#sequence.reconcile()
  }

  /** Serves one client from `lastSeq` on, or from now. Throws AppError `overloaded` when every place is taken. */
  subscribe(reply: StreamReply, options: { address: string; keyId: string; lastSeq: number | undefined }): void {
    const { address, keyId, lastSeq } = options
    const ofAddress = this.#perAddress.get(address) ?? 0
    if (this.#clients.size >= httpLimits.streams || ofAddress >= httpLimits.streamsPerAddress) {
      throw new AppError('overloaded', 'Too many streams are open.', 5)
    }
    const socket = openEventStream(reply)
    if (!socket) return
    socket.write(firstFrame(heartbeat))
    // A seq of the future is from another database: there is nothing to resume.
    const resumes = lastSeq !== undefined && lastSeq < this.#sequence.head
    const client: Client = { socket, address, keyId, seq: resumes ? lastSeq : this.#sequence.head, live: !resumes }
    this.#clients.add(client)
    this.#perAddress.set(address, ofAddress + 1)
    this.#showCount()
    socket.on('close', () => this.#forget(client))
    if (resumes) void this.#catchUp(client)
  }

  /** Ends the streams of keys that are no longer valid. */
  endInvalid(isValid: (keyId: string) => boolean): void {
    for (const { socket, keyId } of this.#clients) if (!isValid(keyId)) socket.destroySoon()
  }

  /** One heartbeat for everybody. */
  keepAlive(): void {
    const text = frame(heartbeat)
    for (const client of this.#clients) {
      // A heartbeat for someone who does not read is worth nothing.
      if (client.live) client.socket.write(text)
    }
  }

  close(delayMs: () => number): void {
    this.#stats.close()
    this.#sequence.close()
    for (const { socket } of this.#clients) closeEventStream(socket, delayMs())
  }

  #forget(client: Client): void {
    this.#clients.delete(client)
    const left = (this.#perAddress.get(client.address) ?? 1) - 1
    if (left > 0) this.#perAddress.set(client.address, left)
    else this.#perAddress.delete(client.address)
    this.#showCount()
  }

  #showCount(): void {
    this.#deps.metrics.streamClients.set({ kind: 'events' }, this.#clients.size)
  }

  #append(row: EventFields): void {
    this.#recent.add(row)
    if (this.#clients.size === 0) return
    this.#unsent.push(row)
    this.#flushSoon()
  }

  #receiveOutside(row: OutsideEvent): void {
    if (this.#clients.size === 0) return
    this.#unsentOutside.push(row)
    this.#flushSoon()
  }

  #flushSoon(): void {
    if (this.#flushing) return
    this.#flushing = true
    setImmediate(() => this.#flush())
  }

  #flush(): void {
    this.#flushing = false
    const [rows, outside] = [this.#unsent, this.#unsentOutside]
    this.#unsent = []
    this.#unsentOutside = []
    if ([...rows, ...outside].some(({ severity }) => severity !== 'info')) this.#wantStats()
    if (rows.length > 0) this.#writeRows(rows)
    if (outside.length > 0) this.#writeToLive(Buffer.from(outside.map(outsideFrame).join('')))
    for (const client of this.#clients) {
      if (!client.live || client.socket.writableLength <= maxUnsentBytes) continue
      client.live = false
      void this.#catchUp(client)
    }
  }

  #writeRows(rows: readonly EventFields[]): void {
    const before = Number(rows[0]!.seq) - 1
    const bytes = Buffer.from(rows.map(eventFrame).join(''))
    for (const client of this.#clients) {
      if (!client.live) continue
      // Who joined since the rows came has some of them already.
      if (client.seq <= before) client.socket.write(bytes)
      else client.socket.write(framesAfter(rows, client.seq))
      // Who caught up from the database may be ahead of what was announced here.
      client.seq = Math.max(client.seq, Number(rows.at(-1)!.seq))
    }
  }

  #writeToLive(bytes: Buffer): void {
    for (const { socket, live } of this.#clients) if (live) socket.write(bytes)
  }

  #wantStats(): void {
    if (this.#clients.size > 0) this.#stats.want()
  }

  /** Brings a client to the head at its own pace, then back into the live round. Between the last check and that no event can slip in. */
  async #catchUp(client: Client): Promise<void> {
    const { socket } = client
    try {
      this.#skipBeyondReplay(client)
      while (!socket.destroyed) {
        await this.#drained(socket)
        if (client.seq >= this.#sequence.head) break
        const rows =
          this.#recent.after(client.seq, replayPageRows) ??
          (await readEventsAfter(this.#deps.database.db, client.seq, replayPageRows))
        const page = pageOf(rows)
        client.seq = page.lastSeq ?? this.#sequence.head
        socket.write(page.text)
      }
      client.live = true
    } catch (fault) {
      this.#deps.log.warn({ err: fault }, 'a stream client could not catch up and was cut')
      this.#cut(client, 'error')
    }
  }

  #skipBeyondReplay(client: Client): void {
    const from = this.#sequence.head - maxReplayRows
    if (client.seq >= from) return
    const gap = { type: 'gap', data: { after: client.seq, resumes_after: from } }
    client.socket.write(`event: gap\n${frame(JSON.stringify(gap))}`)
    client.seq = from
  }

  async #drained(socket: Socket): Promise<void> {
    if (!socket.writableNeedDrain) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => {
        this.#deps.metrics.streamCuts.inc({ reason: 'stalled' })
        socket.destroy()
      }, maxStalledMs)
      const done = () => {
        clearTimeout(timer)
        socket.off('drain', done)
        socket.off('close', done)
        resolve()
      }
      socket.on('drain', done)
      socket.on('close', done)
    })
  }

  #cut(client: Client, reason: string): void {
    this.#deps.metrics.streamCuts.inc({ reason })
    client.socket.destroy()
  }
}
