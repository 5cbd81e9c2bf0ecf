import type { Socket } from 'node:net'
import type { StoredEvent } from '../../db/schema.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { httpLimits } from '../../http/limits.ts'
import { closeEventStream, firstFrame, frame, openEventStream, type StreamReply } from '../../http/sse.ts'
import { severityCounts } from '../events/counts.ts'
import { eventRowJson } from '../events/row.ts'
import { readEventsAfter, readLastSeq } from './queries.ts'
import { RecentEvents } from './recent-events.ts'

/** Rows replayed at most: the stream may be open to everybody, the whole history is for key holders (GET /api/events). */
const maxReplayRows = 10_000
const replayPageRows = 250
/** A client that takes nothing for this long is cut; it resumes where it was. */
const maxStalledMs = 30_000
/** Bytes that wait for one client before it leaves the live round and reads at its own pace. */
const maxUnsentBytes = 256 * 1024
/** Severity counts are pushed at most this often, however many events come. */
const statsEveryMs = 250

const heartbeat = '{"type":"heartbeat"}'
const eventFrame = (row: StoredEvent) => frame(`{"type":"event","data":${eventRowJson(row)}}`, Number(row.seq))

const framesAfter = (rows: readonly StoredEvent[], seq: number) =>
  rows
    .filter((row) => Number(row.seq) > seq)
    .map(eventFrame)
    .join('')

/** As many frames as may wait for one slow client. */
function pageOf(rows: readonly StoredEvent[]): { text: string; lastSeq: number | undefined } {
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
  #head = 0
  /** The highest seq heard of. */
  #announced = 0
  #unsent: StoredEvent[] = []
  #flushing = false
  #filling: Promise<void> | undefined
  #stats: { timer: NodeJS.Timeout | undefined; again: boolean } = { timer: undefined, again: false }

  constructor(deps: Deps) {
    this.#deps = deps
    deps.bus.onEvents((rows) => this.#receive(rows))
  }

  /** Starts at the newest stored event. */
  async open(): Promise<void> {
    this.#head = await readLastSeq(this.#deps.database.db)
    this.#announced = this.#head
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
    const resumes = lastSeq !== undefined && lastSeq < this.#head
    const client: Client = { socket, address, keyId, seq: resumes ? lastSeq : this.#head, live: !resumes }
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
    clearTimeout(this.#stats.timer)
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

  #receive(rows: readonly StoredEvent[]): void {
    for (const row of rows) {
      const seq = Number(row.seq)
      this.#announced = Math.max(this.#announced, seq)
      if (seq === this.#head + 1) this.#append(row)
    }
    // What the bus lost or brought out of order is read from the database.
    if (this.#announced > this.#head) this.#fillGap()
  }

  #append(row: StoredEvent): void {
    this.#head = Number(row.seq)
    this.#recent.add(row)
    if (this.#clients.size === 0) return
    this.#unsent.push(row)
    if (this.#flushing) return
    this.#flushing = true
    setImmediate(() => this.#flush())
  }

  /** Hears of events whose commit was answered too late to be published, or that another process stored. */
  async reconcile(): Promise<void> {
    this.#announced = Math.max(this.#announced, await readLastSeq(this.#deps.database.db))
    if (this.#announced > this.#head) this.#fillGap()
  }

  #fillGap(): void {
    this.#filling ??= this.#readMissing().finally(() => {
      this.#filling = undefined
    })
  }

  async #readMissing(): Promise<void> {
    try {
      while (this.#announced > this.#head) {
        const rows = await readEventsAfter(this.#deps.database.db, this.#head, replayPageRows)
        this.#passOver(rows[0])
        for (const row of rows) if (Number(row.seq) === this.#head + 1) this.#append(row)
        // A row that was announced but is not there was forged, or is gone already.
        if (rows.length === 0) this.#announced = this.#head
      }
    } catch (fault) {
      this.#deps.log.warn({ err: fault }, 'stream could not read missing events; the next event tries again')
    }
  }

  /** Rows that retention removed before they could be read are no longer to be had. */
  #passOver(next: StoredEvent | undefined): void {
    if (!next || Number(next.seq) <= this.#head + 1) return
    this.#head = Number(next.seq) - 1
    this.#recent.clear()
  }

  #flush(): void {
    this.#flushing = false
    const rows = this.#unsent
    this.#unsent = []
    const before = Number(rows[0]!.seq) - 1
    if (rows.some(({ severity }) => severity !== 'info')) this.#wantStats()
    const bytes = Buffer.from(rows.map(eventFrame).join(''))
    for (const client of this.#clients) {
      if (!client.live) continue
      // Who joined since the rows came has some of them already.
      if (client.seq <= before) client.socket.write(bytes)
      else client.socket.write(framesAfter(rows, client.seq))
      // Who caught up from the database may be ahead of what was announced here.
      client.seq = Math.max(client.seq, Number(rows.at(-1)!.seq))
      if (client.socket.writableLength > maxUnsentBytes) {
        client.live = false
        void this.#catchUp(client)
      }
    }
  }

  /** Brings a client to the head at its own pace, then back into the live round. Between the last check and that no event can slip in. */
  async #catchUp(client: Client): Promise<void> {
    const { socket } = client
    try {
      this.#skipBeyondReplay(client)
      while (!socket.destroyed) {
        await this.#drained(socket)
        if (client.seq >= this.#head) break
        const rows =
          this.#recent.after(client.seq, replayPageRows) ??
          (await readEventsAfter(this.#deps.database.db, client.seq, replayPageRows))
        const page = pageOf(rows)
        client.seq = page.lastSeq ?? this.#head
        socket.write(page.text)
      }
      client.live = true
    } catch (fault) {
      this.#deps.log.warn({ err: fault }, 'a stream client could not catch up and was cut')
      this.#cut(client, 'error')
    }
  }

  #skipBeyondReplay(client: Client): void {
    const from = this.#head - maxReplayRows
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

  /** The latest counts win: one reading serves every event that came meanwhile. */
  #wantStats(): void {
    this.#stats.again = true
    if (this.#stats.timer || this.#clients.size === 0) return
    void this.#pushStats()
    this.#stats.timer = setTimeout(() => {
      this.#stats.timer = undefined
      if (this.#stats.again) this.#wantStats()
    }, statsEveryMs)
  }

  async #pushStats(): Promise<void> {
    this.#stats.again = false
    try {
      const counts = await severityCounts(this.#deps.database.db, this.#deps.clock.now())
      const bytes = Buffer.from(frame(`{"type":"stats","data":${JSON.stringify(counts)}}`))
      for (const { socket, live } of this.#clients) if (live) socket.write(bytes)
    } catch (fault) {
      this.#deps.log.warn({ err: fault }, 'severity counts could not be read for the stream')
    }
  }
}
