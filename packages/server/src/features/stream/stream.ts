import type { EventFields } from '../../db/schema/events.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { Holder } from '../../http/auth.ts'
import { httpLimits } from '../../http/limits.ts'
import { anonymous } from '../../http/route.ts'
import { closeEventStream, firstFrame, frame, openEventStream, type StreamReply } from '../../http/sse.ts'
import { fits, type StreamBacklog } from '../../http/stream-backlog.ts'
import type { OutsideEvent } from '../events/event-row.ts'
import type { LogFollower } from '../events/log-follower.ts'
import { CatchUp, type Follower } from './catch-up.ts'
import { ControlFeed } from './control-feed.ts'
import { eventFrame, outsideFrame, type Page, pagesOf } from './frames.ts'
import { StatsPush } from './stats-push.ts'

const heartbeat = '{"type":"heartbeat"}'

/**
 * How long recent events stay in memory without any client, for clients that reconnect. Later clients read the
 * database.
 */
const keepRecentMs = 60_000

/** Clients limited to teams get events at most this often: each time the database is asked which agents are theirs. */
const teamEveryMs = 100

interface Client extends Follower {
  address: string
  holder: Holder
}

interface Subscription {
  address: string
  holder: Holder
  lastSeq: number | undefined
  /** Whether the client also gets kills and resumes. */
  hasControl: boolean
}

const framesBetween = (rows: readonly EventFields[], after: number, last: number) =>
  rows
    .filter(({ seq }) => seq > after && seq <= last)
    .map(eventFrame)
    .join('')

/** The live feed. Encodes each message once for all clients, and writes once per client and turn. */
export class EventStream {
  readonly #deps: Deps
  readonly #backlog: StreamBacklog
  readonly #catchUp: CatchUp
  readonly #control: ControlFeed
  readonly #clients = new Set<Client>()
  readonly #perAddress = new Map<string, number>()
  readonly #follower: LogFollower
  readonly #stats: StatsPush
  #unsent: EventFields[] = []
  #unsentOutside: OutsideEvent[] = []
  #flushing = false
  #teamTimer: NodeJS.Timeout | undefined
  #lastLeftAt = -Infinity

  constructor(deps: Deps, { streamBacklog, logFollower }: { streamBacklog: StreamBacklog; logFollower: LogFollower }) {
    this.#deps = deps
    this.#backlog = streamBacklog
    this.#follower = logFollower
    logFollower.listen((row) => this.#append(row))
    this.#control = new ControlFeed(deps, streamBacklog)
    this.#stats = new StatsPush(deps, (bytes) => this.#writeToLive(bytes))
    this.#catchUp = new CatchUp(deps, logFollower, streamBacklog)
  }

  async open(): Promise<void> {
    if (this.#deps.bus.state !== 'in-process') {
      // Imported on demand, because the validator takes 0.1 s to load and is needed only with a backplane.
      const { subscribeToOutsideEvents } = await import('./outside-events.ts')
      subscribeToOutsideEvents(this.#deps, (row) => this.#receiveOutside(row))
    }
    await this.#control.open()
  }

  /** Sends control changes that other processes stored without a message arriving here. */
  async reconcile(): Promise<void> {
    await this.#control.reconcile()
  }

  /** Serves one client from `lastSeq`, or from now. Throws AppError `overloaded` when the stream limits are reached. */
  subscribe(reply: StreamReply, { address, holder, lastSeq, hasControl }: Subscription): void {
    const ofAddress = this.#perAddress.get(address) ?? 0
    if (this.#clients.size >= httpLimits.streams || ofAddress >= httpLimits.streamsPerAddress) {
      throw new AppError('overloaded', 'Too many streams are open.', 5)
    }
    const socket = openEventStream(reply)
    if (!socket) return
    socket.write(firstFrame(heartbeat))
    // A seq beyond the head comes from another database, so there is nothing to resume.
    const resumes = lastSeq !== undefined && lastSeq < this.#follower.head
    const seq = resumes ? lastSeq : this.#follower.head
    const caller = holder.keyId === anonymous.keyId ? address : holder.keyId
    const { team } = holder
    const feed = team ? { live: false, isIdle: !resumes, team } : { live: !resumes }
    const client: Client = { socket, address, holder, caller, seq, ...feed }
    this.#clients.add(client)
    if (hasControl) this.#control.add(socket, team)
    this.#perAddress.set(address, ofAddress + 1)
    this.#showCount()
    socket.on('close', () => this.#forget(client))
    if (resumes) this.#catchUp.add(client)
  }

  *holders(): Generator<Holder> {
    for (const { holder } of this.#clients) yield holder
  }

  /** Ends the streams of keys and sessions that are no longer valid. */
  endInvalid(isValid: (holder: Holder) => boolean): void {
    for (const { socket, holder } of this.#clients) if (!isValid(holder)) socket.destroySoon()
  }

  /** Sends a heartbeat to all clients. */
  keepAlive(): void {
    const text = frame(heartbeat)
    for (const { socket } of this.#clients) {
      // For a client that does not read, heartbeats would only fill memory.
      if (socket.writableLength === 0) this.#backlog.write(socket, text)
    }
  }

  close(delayMs: () => number): void {
    clearTimeout(this.#teamTimer)
    this.#stats.close()
    this.#control.close()
    this.#catchUp.close()
    for (const { socket } of this.#clients) closeEventStream(socket, delayMs())
  }

  #forget(client: Client): void {
    this.#clients.delete(client)
    this.#lastLeftAt = this.#deps.clock.monotonic()
    this.#control.remove(client.socket)
    this.#backlog.forget(client.socket)
    const left = (this.#perAddress.get(client.address) ?? 1) - 1
    if (left > 0) this.#perAddress.set(client.address, left)
    else this.#perAddress.delete(client.address)
    this.#showCount()
  }

  #showCount(): void {
    this.#deps.metrics.streamClients.set({ kind: 'events' }, this.#clients.size)
  }

  #append(row: EventFields): boolean {
    if (this.#clients.size === 0) return this.#deps.clock.monotonic() - this.#lastLeftAt <= keepRecentMs
    this.#unsent.push(row)
    this.#flushSoon()
    return true
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
    for (const page of pagesOf(rows)) this.#writePage(page, rows)
    if (rows.length > 0) this.#wakeTeamsSoon()
    if (outside.length > 0) this.#writeToLive(Buffer.from(outside.map(outsideFrame).join('')))
  }

  #writePage({ bytes, firstSeq, lastSeq }: Page, rows: readonly EventFields[]): void {
    for (const client of this.#clients) {
      if (!client.live || client.seq >= lastSeq) continue
      if (!fits(client.socket, bytes.length)) {
        this.#catchUp.add(client)
        continue
      }
      // A client that caught up from the database may be ahead of what was announced to this process.
      const data = client.seq < firstSeq ? bytes : framesBetween(rows, client.seq, lastSeq)
      this.#backlog.write(client.socket, data)
      client.seq = lastSeq
    }
  }

  #wakeTeamsSoon(): void {
    this.#teamTimer ??= setTimeout(() => {
      this.#teamTimer = undefined
      for (const client of this.#clients) this.#catchUp.wake(client)
    }, teamEveryMs)
  }

  /** Sends counts, and events that are not stored and prove no agent, only to live clients with room in their buffer. */
  #writeToLive(bytes: Buffer): void {
    for (const { socket, live } of this.#clients) {
      if (live && fits(socket, bytes.length)) this.#backlog.write(socket, bytes)
    }
  }

  #wantStats(): void {
    if (this.#clients.size > 0) this.#stats.want()
  }
}
