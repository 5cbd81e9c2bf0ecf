import type { Stream, StreamMessage } from './event-stream.ts'
import { patienceMs, type Service, until } from './service.ts'
import type { ControlMessage, EventRow, StreamBody } from './shapes.ts'

type Streaming = Pick<Service, 'openStream'>

/** A client of a stream that reconnects like EventSource. */
interface Follower {
  /** Number of reconnects. */
  returns(): number
  /** Closes the connection. */
  cut(): void
  stop(): Promise<void>
}

/** A client of the event stream that reconnects with Last-Event-ID. */
export interface StreamFollower extends Follower {
  /** Received events in order, over all connections. */
  rows: EventRow[]
  /** Resolves when it has received the event with this number. */
  reaches(seq: number, timeoutMs?: number): Promise<void>
}

/** A client of an agent's control stream. */
export interface ControlFollower extends Follower {
  /** Received versions in order, over all connections; each connection begins with the current one. */
  versions: number[]
  reaches(version: number): Promise<void>
}

interface Followed {
  open(): Promise<Stream>
  take(message: StreamMessage): void
}

/** Resolves when the first connection is open. */
async function follow({ open, take }: Followed) {
  let returns = 0
  let stopped = false
  let stream = await open()

  async function goOn(): Promise<void> {
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
  const following = goOn()
  // `reaches` and `stop` report it.
  following.catch(() => {})

  return {
    returns: () => returns,
    cut: () => stream.close(),
    async reaches(what: string, last: () => number | undefined, wanted: number, timeoutMs = patienceMs) {
      const arrived = until(what, last, (value) => (value ?? 0) >= wanted, timeoutMs)
      await Promise.race([arrived, following.then(() => arrived)])
    },
    async stop() {
      stopped = true
      await following
    },
  }
}

/** Resolves when the first connection is open: all events stored afterwards must be received. */
export async function followStream(service: Streaming): Promise<StreamFollower> {
  const rows: EventRow[] = []
  let lastEventId: string | undefined
  const follower = await follow({
    async open() {
      const opened = await service.openStream('/api/stream', lastEventId === undefined ? {} : { lastEventId })
      await opened.next<StreamBody>((body) => body.type === 'heartbeat')
      return opened
    },
    take({ id, event, json }) {
      const body = json as StreamBody
      if (event !== undefined) throw new Error(`the stream tells of a ${event}: ${JSON.stringify(json)}`)
      if (body.type !== 'event' || id === undefined) return
      lastEventId = id
      rows.push(body.data)
    },
  })
  return {
    ...follower,
    rows,
    reaches: (seq, timeoutMs) => follower.reaches(`event ${seq} on the stream`, () => rows.at(-1)?.seq, seq, timeoutMs),
  }
}

/** Resolves when the first connection has the current version. */
export async function followControl(service: Streaming, key: string, instanceId: string): Promise<ControlFollower> {
  const versions: number[] = []
  const isVersion = (json: unknown): json is ControlMessage => Number.isInteger((json as ControlMessage).version)
  const follower = await follow({
    async open() {
      const opened = await service.openStream(`/api/instances/${instanceId}/control`, { key })
      await opened.next(isVersion)
      return opened
    },
    take({ json }) {
      if (isVersion(json)) versions.push(json.version)
    },
  })
  return {
    ...follower,
    versions,
    reaches: (version) => follower.reaches(`version ${version} of ${instanceId}`, () => versions.at(-1), version),
  }
}
