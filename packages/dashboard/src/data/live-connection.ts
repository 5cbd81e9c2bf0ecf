import {
  type ControlChange,
  endpoints,
  type SeverityCounts,
  type StreamedRow,
  type StreamMessage,
} from '@wardline/contract'
import { createParser } from 'eventsource-parser'
import { call, send } from './client.ts'

type LivePhase = 'connecting' | 'live' | 'waiting' | 'signed-out'

/** A batch that the connection delivers to all pages of this browser, at most ten times a second. */
export interface LiveBatch {
  phase: LivePhase
  /** Epoch milliseconds of the last byte from the service; undefined before the first. */
  heardAt: number | undefined
  /** Number of the connection. After it changes, a page's lists may lack earlier rows. */
  connection: number
  /** The service replays only part of what was missed, so lists must be read again. */
  hasGap: boolean
  events: StreamedRow[]
  control: ControlChange[]
  stats: SeverityCounts | undefined
}

/** How long frames are batched: a page that renders 500 times a second for 500 events has no time for anything else. */
const gatherMs = 100
/** The service sends a message at least every 30 seconds. */
const silenceMs = 45_000
/** Reconnection delays. A restart takes about a second; the last delay repeats during longer outages. */
const retryMs = [500, 1_000, 2_000, 4_000] as const

const streamAddress = `${endpoints.streamEvents.path}?include=control`

/** Opens one event stream for all pages of this browser. It resumes after the last event that it delivered. */
export function openLiveConnection(deliver: (batch: LiveBatch) => void) {
  let phase: LivePhase = 'connecting'
  let heardAt: number | undefined
  let connection = 0
  let lastSeq: number | undefined
  let lastControlSeq: number | undefined
  let failures = 0
  let retry: ReturnType<typeof setTimeout> | undefined
  let gathering: ReturnType<typeof setTimeout> | undefined
  let isConnecting = false
  let pending: Pick<LiveBatch, 'events' | 'control' | 'stats' | 'hasGap'> = emptyBatch()

  function emptyBatch() {
    return { events: [], control: [], stats: undefined, hasGap: false }
  }
  const state = (): LiveBatch => ({ phase, heardAt, connection, ...emptyBatch() })

  function flush(): void {
    clearTimeout(gathering)
    gathering = undefined
    const batch = { phase, heardAt, connection, ...pending }
    pending = emptyBatch()
    deliver(batch)
  }
  function flushSoon(): void {
    gathering ??= setTimeout(flush, gatherMs)
  }
  function enter(next: LivePhase): void {
    phase = next
    flush()
  }

  function takeControl(change: ControlChange): void {
    if (lastControlSeq !== undefined && change.seq <= lastControlSeq) return
    lastControlSeq = change.seq
    pending.control.push(change)
    flushSoon()
  }

  function takeMessage(text: string, name: string | undefined): void {
    if (name === 'gap') pending.hasGap = true
    const message = JSON.parse(text) as StreamMessage | { type: 'control'; data: ControlChange }
    if (message.type === 'control') takeControl(message.data)
    if (message.type === 'stats') pending.stats = message.data
    if (message.type === 'event') {
      const { seq } = message.data
      if (seq !== null && lastSeq !== undefined && seq <= lastSeq) return
      if (seq !== null) lastSeq = seq
      pending.events.push(message.data)
    }
    flushSoon()
  }

  /** Sets the starting point of the stream; otherwise events stored while the first connection fails would be lost. */
  async function findStart(): Promise<void> {
    if (lastSeq !== undefined && lastControlSeq !== undefined) return
    const [{ events }, { changes }] = await Promise.all([
      call('listEvents', { query: { limit: '1' } }),
      call('listControlChanges', { query: { limit: '1' } }),
    ])
    lastSeq = events[0]?.seq ?? 0
    lastControlSeq = changes[0]?.seq ?? 0
  }

  /** Reads missed kills and resumes, which the stream does not replay. */
  async function readMissedControl(): Promise<void> {
    const { changes } = await call('listControlChanges', { query: { after: String(lastControlSeq) } })
    for (const change of changes.reverse()) takeControl(change)
  }

  async function follow(): Promise<void> {
    await findStart()
    const end = new AbortController()
    let silence = setTimeout(() => end.abort(), silenceMs)
    try {
      const headers = { accept: 'text/event-stream', 'last-event-id': String(lastSeq) }
      const response = await send(streamAddress, { headers, cache: 'no-store', signal: end.signal })
      if (response.status === 401 || response.status === 403) return void enter('signed-out')
      if (!response.ok || !response.body) throw new Error(`The stream answers ${response.status}.`)
      const parser = createParser({ onEvent: ({ data, event }) => takeMessage(data, event) })
      const decoder = new TextDecoder()
      connection += 1
      failures = 0
      heardAt = Date.now()
      await readMissedControl()
      enter('live')
      for await (const bytes of response.body) {
        clearTimeout(silence)
        silence = setTimeout(() => end.abort(), silenceMs)
        heardAt = Date.now()
        parser.feed(decoder.decode(bytes, { stream: true }))
        flushSoon()
      }
      throw new Error('The stream ended.')
    } finally {
      clearTimeout(silence)
      end.abort()
    }
  }

  async function connect(): Promise<void> {
    if (isConnecting) return
    isConnecting = true
    clearTimeout(retry)
    try {
      await follow()
    } catch (fault) {
      if ((fault as { status?: number }).status === 401) return void enter('signed-out')
      enter('waiting')
      // Jitter, because all dashboards lost the connection at the same moment.
      retry = setTimeout(connect, retryMs[Math.min(failures++, retryMs.length - 1)]! * (0.5 + Math.random()))
    } finally {
      isConnecting = false
    }
  }

  void connect()
  return {
    state,
    /** Connects at once instead of after the retry delay, such as after a sign-in. */
    wake(): void {
      if (phase !== 'live') void connect()
    },
  }
}
