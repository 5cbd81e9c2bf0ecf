import { setTimeout as sleep } from 'node:timers/promises'
import { ErrorReply } from '@redis/client'
import type { ControlMessage } from '@wardline/contract'
import type { Clock } from '../clock.ts'
import type { EventFields } from '../db/schema/events.ts'
import { randomBetween } from '../ids.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { Secrets } from '../secrets.ts'
import type { Bus, EventListener, ReadEvent, WriteEvent } from './bus.ts'
import { type Notice, noticeMessage } from './notice.ts'
import { findRedis } from './redis-servers.ts'
import { addressOf, type BusLane, openRedisSession, type RedisSession } from './redis-session.ts'
import { readControlChannel } from './signed-control.ts'
import { createMac, eventMessage, type Mac, readEventMessage, signatureOf } from './signed-event.ts'

/**
 * Pauses between connection attempts are random, up to a bound that doubles from the first to the last value. All
 * processes thus reconnect soon, but not at once.
 */
const firstPauseMs = 50
const lastPauseMs = 2_000
/** Limit of own messages expected back, of notices heard, and of instances with a known last version. */
const maxRemembered = 10_000

interface RedisBusOptions {
  /** Asked for each connection: the password may have changed. */
  url: () => string
  eventsChannel: string
  controlChannel: string
  clock: Clock
  log: Log
  metrics: Metrics
  secrets: Pick<Secrets, 'controlKey' | 'eventKey'>
}

/** Bus between processes over Redis or Valkey channels. During an outage only this process's listeners are called. */
export class RedisBus implements Bus {
  readonly #options: RedisBusOptions
  readonly #eventListeners: { listener: EventListener; read: ReadEvent }[] = []
  readonly #controlListeners: ((message: ControlMessage) => void)[] = []
  readonly #noticeListeners: ((notice: Notice) => void)[] = []
  readonly #outsideListeners: ((message: Buffer) => void)[] = []
  readonly #reconnectListeners: ((missedSince: number) => void)[] = []
  readonly #eventMac: Mac
  readonly #controlMac: Mac
  #session: RedisSession | undefined
  #missedSince: number
  #isReported = false
  #unsent: { rows: readonly EventFields[]; write: WriteEvent }[] = []
  /** Signatures of own published events, which need not be verified or parsed when they come back. */
  readonly #echoes = new Set<string>()
  /** Last version of each instance received from the control channel. */
  readonly #carried = new Map<string, number>()
  /** Signatures of notices sent or received, so that none is heard twice. */
  readonly #heardNotices = new Set<string>()
  readonly #closing = new AbortController()
  #connecting: Promise<void> = Promise.resolve()

  constructor(options: RedisBusOptions) {
    this.#options = options
    this.#eventMac = createMac(options.secrets.eventKey)
    this.#controlMac = createMac(options.secrets.controlKey)
    this.#missedSince = options.clock.now()
  }

  /** Connects and keeps reconnecting. Resolves after the first attempt, whether or not it succeeded. */
  open(): Promise<void> {
    return new Promise((resolve) => {
      this.#connecting = this.#stayConnected(resolve)
    })
  }

  get state(): 'ok' | 'unavailable' {
    return this.#session ? 'ok' : 'unavailable'
  }

  get receivesAll(): boolean {
    return this.#session !== undefined
  }

  onEvents(listener: EventListener, read: ReadEvent): void {
    this.#eventListeners.push({ listener, read })
  }

  onControl(listener: (message: ControlMessage) => void): void {
    this.#controlListeners.push(listener)
  }

  onNotice(listener: (notice: Notice) => void): void {
    this.#noticeListeners.push(listener)
  }

  onOutsideEvents(listener: (message: Buffer) => void): void {
    this.#outsideListeners.push(listener)
  }

  onReconnect(listener: (missedSince: number) => void): void {
    this.#reconnectListeners.push(listener)
  }

  publishEvents(rows: readonly EventFields[], write: WriteEvent): void {
    for (const { listener } of this.#eventListeners) listener(rows)
    // Send after the callers of the commit got their responses: encoding a thousand rows takes a few milliseconds.
    if (this.#unsent.length === 0) setImmediate(() => this.#sendEvents())
    this.#unsent.push({ rows, write })
  }

  publishControl(message: ControlMessage): void {
    for (const listener of this.#controlListeners) listener(message)
    const { instance_id, version } = message
    // Every process polls for missed changes each second and publishes them; skip those already seen on the channel.
    if ((this.#carried.get(instance_id) ?? -1) >= version) return
    if (this.#canSend('control')) this.#session?.publish('control', JSON.stringify(message))
    else this.#drop('control', 1)
  }

  publishNotice(notice: Notice): void {
    for (const listener of this.#noticeListeners) listener(notice)
    const { text, signature } = noticeMessage(notice, this.#options.clock.now(), this.#controlMac)
    this.#isFirst(signature)
    if (this.#canSend('control')) this.#session?.publish('control', text)
    else this.#drop('control', 1)
  }

  async close(): Promise<void> {
    this.#sendEvents()
    this.#closing.abort()
    await this.#session?.close()
    await this.#connecting
  }

  #canSend(lane: BusLane): boolean {
    return this.#session !== undefined && !this.#session.isFull(lane)
  }

  #sendEvents(): void {
    const batches = this.#unsent
    this.#unsent = []
    let dropped = 0
    for (const { rows, write } of batches) {
      for (const row of rows) {
        if (this.#canSend('events')) this.#sendEvent(write(row))
        else dropped += 1
      }
    }
    if (dropped > 0) this.#drop('events', dropped)
  }

  #sendEvent(row: string): void {
    const { text, signature } = eventMessage(row, this.#eventMac)
    if (this.#echoes.size < maxRemembered) this.#echoes.add(signature)
    this.#session?.publish('events', text)
  }

  #drop(lane: BusLane, count: number): void {
    this.#options.metrics.backplaneDropped.inc({ channel: lane }, count)
  }

  #refuse(lane: BusLane, reason: string): void {
    this.#options.metrics.backplaneRefused.inc({ channel: lane, reason })
  }

  #hear(lane: BusLane, message: Buffer): void {
    try {
      if (lane === 'events') this.#hearEvent(message)
      else this.#hearControl(message)
    } catch (fault) {
      this.#options.log.error({ err: fault, channel: lane }, 'a message of the backplane could not be handled')
    }
  }

  #hearEvent(message: Buffer): void {
    const signature = signatureOf(message)
    if (signature !== undefined && this.#echoes.delete(signature)) return
    const heard = readEventMessage(message, signature, this.#eventMac)
    if (typeof heard === 'object') {
      this.#tellEvent(heard.row)
    } else if (heard === 'unsigned') {
      for (const listener of this.#outsideListeners) listener(message)
    } else {
      this.#refuse('events', heard)
    }
  }

  #tellEvent(row: string): void {
    for (const { listener, read } of this.#eventListeners) {
      let event: EventFields
      try {
        event = read(row)
      } catch {
        this.#refuse('events', 'malformed')
        return
      }
      listener([event])
    }
  }

  #hearControl(bytes: Buffer): void {
    const heard = readControlChannel(bytes, this.#options.clock.now(), this.#controlMac)
    if (typeof heard === 'string') {
      this.#refuse('control', heard)
    } else if ('control' in heard) {
      this.#noteCarried(heard.control)
      for (const listener of this.#controlListeners) listener(heard.control)
    } else if (this.#isFirst(heard.signature)) {
      for (const listener of this.#noticeListeners) listener(heard.notice)
    }
  }

  /** Whether no notice with this signature was sent or received before. */
  #isFirst(signature: string): boolean {
    if (this.#heardNotices.has(signature)) return false
    this.#heardNotices.add(signature)
    if (this.#heardNotices.size > maxRemembered) this.#heardNotices.delete(this.#heardNotices.values().next().value!)
    return true
  }

  #noteCarried({ instance_id, version }: ControlMessage): void {
    const newest = Math.max(version, this.#carried.get(instance_id) ?? 0)
    // Deleting first moves the entry to the end, so that the oldest entry comes first.
    this.#carried.delete(instance_id)
    this.#carried.set(instance_id, newest)
    if (this.#carried.size > maxRemembered) this.#carried.delete(this.#carried.keys().next().value!)
  }

  async #stayConnected(afterFirstAttempt: () => void): Promise<void> {
    const { clock } = this.#options
    const { signal } = this.#closing
    for (let failures = 0; !signal.aborted; failures += 1) {
      const startedAt = clock.monotonic()
      try {
        const session = await this.#connect()
        afterFirstAttempt()
        this.#lose(await session.ended)
      } catch (fault) {
        this.#lose(fault as Error)
        afterFirstAttempt()
      }
      if (clock.monotonic() - startedAt > lastPauseMs) failures = 0
      const longest = Math.min(lastPauseMs, firstPauseMs * 2 ** failures)
      await sleep(randomBetween(0, longest), undefined, { signal }).catch(() => {})
    }
  }

  async #connect(): Promise<RedisSession> {
    const { url, eventsChannel, controlChannel, log, metrics } = this.#options
    let isRefusalLogged = false
    const server = await findRedis(url())
    const session = await openRedisSession({
      ...server,
      lanes: {
        events: { channel: eventsChannel, hear: (message) => this.#hear('events', message) },
        control: { channel: controlChannel, hear: (message) => this.#hear('control', message) },
      },
      onFailed: (lane, fault) => {
        this.#drop(lane, 1)
        if (isRefusalLogged || !(fault instanceof ErrorReply)) return
        isRefusalLogged = true
        log.error({ channel: lane, reason: fault.message }, 'the backplane refuses published messages')
      },
      signal: this.#closing.signal,
    })
    this.#session = session
    this.#echoes.clear()
    metrics.backplaneUp.set(1)
    log.info({ address: addressOf(server.url) }, this.#isReported ? 'backplane back' : 'backplane connected')
    if (this.#isReported) metrics.backplaneReconnects.inc()
    this.#isReported = false
    for (const listener of this.#reconnectListeners) listener(this.#missedSince)
    return session
  }

  #lose(reason: Error): void {
    const { url, clock, log, metrics } = this.#options
    if (this.#session) this.#missedSince = clock.now()
    // The session has already ended, unless a reconnect listener failed.
    void this.#session?.close()
    this.#session = undefined
    metrics.backplaneUp.set(0)
    if (this.#isReported || this.#closing.signal.aborted) return
    this.#isReported = true
    const { message, code } = reason as NodeJS.ErrnoException
    log.warn(
      { address: addressOf(url()), reason: message || code },
      'backplane unavailable: changes by other processes are read from the database until it is back',
    )
  }
}
