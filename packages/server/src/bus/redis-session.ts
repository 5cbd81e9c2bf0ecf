import { isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { RedisClient } from '@redis/client'

/** A hung Redis takes connections but does not speak: opening ends after this long, whatever it waits for. */
const openWithinMs = 2_000
/** Less than the above, so that no connection comes about long after it was given up. */
const connectWithinMs = 1_000
/** A peer that is gone without a word is noticed after at most the sum of both. */
const pingEveryMs = 500
const answerWithinMs = 1_500
/** What Redis has not answered yet, for each kind of message: a hung one must not fill the memory of the service. */
const maxUnansweredBytes = 4 * 1024 * 1024
/** Time for the last messages of a process that stops. */
const farewellMs = 500

/** Kinds of messages, each with its own limit: a flood of events must not delay the notice of a kill. */
export type Lane = 'events' | 'control'

/** A connection to publish and one to subscribe, which live and end together. */
export interface RedisSession {
  /** Whether so much is unanswered that nothing more should be sent. */
  isFull(lane: Lane): boolean
  publish(lane: Lane, message: string): void
  /** Resolves with the reason once either connection is lost. */
  ended: Promise<Error>
  /** Waits a moment for what is under way, then disconnects. */
  close(): Promise<void>
}

interface SessionOptions {
  url: string
  /** The channel of each kind, and what to do with its messages. */
  lanes: Record<Lane, { channel: string; hear: (message: Buffer) => void }>
  /** Hears of each message that Redis did not take. */
  onFailed: (lane: Lane, fault: Error) => void
  /** Gives up opening. */
  signal: AbortSignal
}

/** Host and port of the URL, which may be shown: no user and no password. */
export function addressOf(url: string): string {
  const { hostname, port } = new URL(url)
  return `${hostname}:${port || 6379}`
}

// The path of the URL, a number of a database, means nothing here: channels belong to all of them.
function createClient(url: string) {
  const { protocol, hostname, port, username, password } = new URL(url)
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  const socket = {
    host,
    port: Number(port || 6379),
    connectTimeout: connectWithinMs,
    reconnectStrategy: false as const,
  }
  return new RedisClient({
    name: 'wardline',
    ...(username ? { username: decodeURIComponent(username) } : {}),
    ...(password ? { password: decodeURIComponent(password) } : {}),
    socket: protocol === 'rediss:' ? { ...socket, tls: true, ...(isIP(host) ? {} : { servername: host }) } : socket,
    // What cannot be sent now is not worth sending later: the database is the truth.
    disableOfflineQueue: true,
    // Pings find a dead peer; a timer for every command would cost more than the command.
    commandOptions: { timeout: undefined },
    disableClientInfo: true,
    maintNotifications: 'disabled',
  })
}

/** Connects and subscribes. Rejects when that fails or takes more than two seconds. */
export async function openRedisSession({ url, lanes, onFailed, signal }: SessionOptions): Promise<RedisSession> {
  const publisher = { client: createClient(url), signsOfLife: 0 }
  const subscriber = { client: createClient(url), signsOfLife: 0 }
  const connections = [publisher, subscriber]
  const ended = Promise.withResolvers<Error>()
  let isOver = false

  function end(reason: Error): void {
    if (isOver) return
    isOver = true
    for (const { client } of connections) client.destroy()
    ended.resolve(reason)
  }

  async function connect({ client }: typeof publisher): Promise<void> {
    client.on('error', end)
    await client.connect()
    // The connection was abandoned meanwhile, so it is closed here.
    if (isOver) client.destroy()
  }

  async function subscribe(): Promise<void> {
    await connect(subscriber)
    for (const { channel, hear } of Object.values(lanes)) {
      const listener = (message: Buffer) => {
        subscriber.signsOfLife += 1
        hear(message)
      }
      await subscriber.client.subscribe(channel, listener, true)
    }
  }

  /** Ends the session when nothing at all comes back in time. */
  async function ping(connection: typeof publisher): Promise<void> {
    let known = connection.signsOfLife
    let isAnswered = false
    const judge = () => {
      if (isAnswered) return
      if (connection.signsOfLife === known) return end(new Error('Redis does not answer'))
      known = connection.signsOfLife
      timer = setTimeout(check, answerWithinMs)
    }
    // After a long turn of this process the answer may have come but not been read yet: reading comes first.
    const check = () => void setImmediate(judge)
    let timer = setTimeout(check, answerWithinMs)
    await connection.client.sendCommand(['PING']).catch(end)
    isAnswered = true
    connection.signsOfLife += 1
    clearTimeout(timer)
  }

  async function keepPinging(connection: typeof publisher): Promise<void> {
    while (!isOver) {
      await ping(connection)
      await sleep(pingEveryMs, undefined, { ref: false })
    }
  }

  const giveUp = setTimeout(() => end(new Error('Redis does not answer')), openWithinMs)
  const abort = () => end(new Error('closed'))
  signal.addEventListener('abort', abort)
  const opened = Promise.all([connect(publisher), subscribe()]).then(
    () => undefined,
    (fault: Error) => fault,
  )
  const fault = await Promise.race([opened, ended.promise])
  clearTimeout(giveUp)
  signal.removeEventListener('abort', abort)
  if (fault) {
    end(fault)
    throw fault
  }
  for (const connection of connections) void keepPinging(connection)

  const unanswered = { events: 0, control: 0 }
  return {
    isFull: (lane) => unanswered[lane] >= maxUnansweredBytes,

    publish(lane, message) {
      const command = ['PUBLISH', lanes[lane].channel, message]
      unanswered[lane] += message.length
      // Whatever events wait to be written, a kill goes first.
      publisher.client.sendCommand(command, { asap: lane === 'control' }).then(
        () => {
          unanswered[lane] -= message.length
          publisher.signsOfLife += 1
        },
        (refusal: Error) => {
          unanswered[lane] -= message.length
          onFailed(lane, refusal)
        },
      )
    },

    ended: ended.promise,

    async close() {
      const answered = publisher.client.sendCommand(['PING']).catch(() => {})
      await Promise.race([answered, sleep(farewellMs, undefined, { ref: false })])
      end(new Error('closed'))
    },
  }
}
