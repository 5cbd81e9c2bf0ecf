import type { Stream, StreamMessage } from './event-stream.ts'
import { patienceMs, type Service, until } from './service.ts'
import type { EventRow, StreamBody } from './shapes.ts'

/** A client of the event stream that reconnects with Last-Event-ID like EventSource. */
export interface StreamFollower {
  /** Received events in order, over all connections. */
  rows: EventRow[]
  /** Number of reconnects. */
  returns(): number
  /** Closes the connection. */
  cut(): void
  /** Resolves when it has received the event with this number. */
  reaches(seq: number, timeoutMs?: number): Promise<void>
  stop(): Promise<void>
}

/** Resolves when the first connection is open: all events stored afterwards must be received. */
export async function followStream(service: Service): Promise<StreamFollower> {
  const rows: EventRow[] = []
  let lastEventId: string | undefined
  let returns = 0
  let stopped = false
  let stream = await open()

  async function open(): Promise<Stream> {
    const opened = await service.openStream('/api/stream', lastEventId === undefined ? {} : { lastEventId })
    await opened.next<StreamBody>((body) => body.type === 'heartbeat')
    return opened
  }

  function take({ id, event, json }: StreamMessage): void {
    const body = json as StreamBody
    if (event !== undefined) throw new Error(`the stream tells of a ${event}: ${JSON.stringify(json)}`)
    if (body.type !== 'event' || id === undefined) return
    lastEventId = id
    rows.push(body.data)
  }

  async function follow(): Promise<void> {
    while (!stopped) {
      let ended = false
      void stream.ended.then(() => {
        ended = true
      })
      let taken = 0
      await until(
        'the end of the stream',
        () => {
          for (; taken < stream.messages.length; taken++) take(stream.messages[taken]!)
          return ended || stopped
        },
        Boolean,
        600_000,
      )
      stream.close()
      if (stopped) return
      returns += 1
      stream = await until('a connection of the stream', () => open().catch(() => undefined), Boolean).then((it) => it!)
    }
  }
  const following = follow()
  // `reaches` and `stop` report it.
  following.catch(() => {})

  return {
    rows,
    returns: () => returns,
    cut: () => stream.close(),
    async reaches(seq, timeoutMs = patienceMs) {
      const arrived = until(
        `event ${seq} on the stream`,
        () => rows.at(-1)?.seq ?? 0,
        (last) => last >= seq,
        timeoutMs,
      )
      await Promise.race([arrived, following.then(() => arrived)])
    },
    async stop() {
      stopped = true
      await following
    },
  }
}
