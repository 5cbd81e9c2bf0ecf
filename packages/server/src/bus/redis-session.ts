import { isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { RedisClient } from '@redis/client'

/** Time limit for opening a session: a hung Redis accepts connections but does not respond. */
const openWithinMs = 2_000
/** Shorter than the limit above, so that no connection opens long after the session was given up. */
const connectWithinMs = 1_000
/** A peer that vanished is detected after at most the sum of both. */
const pingEveryMs = 500
const answerWithinMs = 1_500
/** Limit of unacknowledged bytes per lane, so that a hung Redis cannot fill the memory of the service. */
const maxUnansweredBytes = 4 * 1024 * 1024
/** Time for sending the last messages on shutdown. */
const farewellMs = 500

/** Kinds of messages, each with its own limit, so that a flood of events does not delay a kill. */
export type BusLane = 'events' | 'control'

/** A publishing and a subscribing connection, which are closed together. */
export interface RedisSession {
  /** Whether the lane has too many unacknowledged bytes to send more. */
  isFull(lane: BusLane): boolean
  publish(lane: BusLane, message: string): void
  /** Resolves with the reason once either connection is lost. */
  ended: Promise<Error>
  /** Waits up to half a second for pending messages, then disconnects. */
  close(): Promise<void>
}

interface SessionOptions {
  url: string
  /** Asked regularly. Returns why this server must not be used any more. */
  probe: RedisProbe
  /** Channel and message listener of each lane. */
  lanes: Record<BusLane, { channel: string; hear: (message: Buffer) => void }>
  /** Called for each message that Redis did not accept. */
  onFailed: (lane: BusLane, fault: Error) => void
  /** Aborts opening. */
  signal: AbortSignal
}

/** A command, and what is wrong with its answer. */
export interface RedisProbe {
  command: string[]
  faultOf(answer: unknown): string | undefined
}

export const ping: RedisProbe = { command: ['PING'], faultOf: () => undefined }

/** Returns the hosts and ports of a URL of one or several servers, without user and password, for logs. */
export function addressOf(url: string): string {
  const hosts = /^[a-z+]+:\/\/(?:[^@/?#]*@)?([^@/?#]+)/.exec(url)![1]!
  return /:\d+$/.test(hosts) ? hosts : `${hosts}:6379`
}

// Ignores the database number in the URL's path, because channels are shared by all databases.
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
    // Messages that cannot be sent now are dropped, because the database is the source of truth.
    disableOfflineQueue: true,
    // Pings detect a dead peer; a timer per command would cost more than the command.
    commandOptions: { timeout: undefined },
    disableClientInfo: true,
    maintNotifications: 'disabled',
  })
}

/** Asks a server over a separate connection. Rejects if it does not answer within a second. */
export async function askRedis(url: string, command: string[]): Promise<unknown> {
  const client = createClient(url)
  // The error rejects the call below; without a listener it would end the process.
  client.on('error', () => {})
  const silent = sleep(connectWithinMs, undefined, { ref: false }).then(() => {
    throw new Error('Redis does not answer')
  })
  try {
    return await Promise.race([client.connect().then(() => client.sendCommand(command)), silent])
  } finally {
    client.destroy()
  }
}

/** Connects and subscribes. Rejects if this fails or takes more than two seconds. */
export async function openRedisSession({ url, probe, lanes, onFailed, signal }: SessionOptions): Promise<RedisSession> {
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
    // The session ended while this connection was opening.
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

  /** Ends the session if neither the reply nor any other message arrives in time. */
  async function look(connection: typeof publisher): Promise<void> {
    let known = connection.signsOfLife
    let isAnswered = false
    const judge = () => {
      if (isAnswered) return
      if (connection.signsOfLife === known) return end(new Error('Redis does not answer'))
      known = connection.signsOfLife
      timer = setTimeout(check, answerWithinMs)
    }
    // After a long event loop turn, the reply may have arrived without being read yet: read first, then judge.
    const check = () => void setImmediate(judge)
    let timer = setTimeout(check, answerWithinMs)
    // A connection that subscribed takes no other command than this.
    const { command, faultOf } = connection === publisher ? probe : ping
    const answer = await connection.client.sendCommand(command).catch(end)
    isAnswered = true
    const fault = isOver ? undefined : faultOf(answer)
    if (fault !== undefined) end(new Error(fault))
    connection.signsOfLife += 1
    clearTimeout(timer)
  }

  async function keepPinging(connection: typeof publisher): Promise<void> {
    while (!isOver) {
      await look(connection)
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
      // A kill goes ahead of events that wait to be written.
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
