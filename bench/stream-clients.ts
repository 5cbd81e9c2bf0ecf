import { connect, type Socket } from 'node:net'
import { answerTasks } from './helper.ts'
import { quantile } from './statistics.ts'

/**
 * `open`: connects this many Server-Sent Events clients, and returns when each has its first message.
 * `fire`: sends a request that makes the server publish `marker`, and waits until every client has received it.
 */
export type StreamTask =
  | { kind: 'open'; port: number; request: string; clients: number }
  | { kind: 'fire'; port: number; request: string; marker: string }

/** Milliseconds from the request until the median, the 99th percentile and the last client had the marker. */
export type StreamReply = { p50Ms: number; p99Ms: number; lastMs: number; faults: string[] }

type Client = { socket: Socket; tail: string; ready: boolean; seen: string }

/**
 * Several local addresses, because a server may limit the streams per address. On Linux all of 127.0.0.0/8 is local.
 * The number per address is below any sensible limit.
 */
const clientsPerAddress = 50
const openingAtOnce = 100
const openTimeoutMs = 30_000
const fireTimeoutMs = 15_000
/** Keeps at least the length of the marker, which may be split between two packets. */
const tail = 64

const clients: Client[] = []
const readBuffer = Buffer.allocUnsafe(256 * 1024)
let faults: string[] = []
let marker: string | undefined
let startedAt = 0
let arrivals: number[] = []
let complete: () => void = () => {}

function receive(client: Client, chunk: Buffer, ready: (error?: Error) => void): void {
  const text = client.tail + chunk.toString('latin1')
  if (!client.ready) {
    client.tail = text
    if (text.length > 12 && !text.startsWith('HTTP/1.1 200')) {
      ready(new Error(text.slice(0, 300)))
      return
    }
    if (!text.includes('data:')) return
    client.ready = true
    ready()
  }
  client.tail = text.slice(-tail)
  if (marker === undefined || client.seen === marker || !text.includes(marker)) return
  client.seen = marker
  arrivals.push(performance.now() - startedAt)
  if (arrivals.length === clients.length) complete()
}

function openClient(port: number, request: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const patience = setTimeout(() => reject(new Error('no first message')), openTimeoutMs)
    const ready = (error?: Error) => {
      clearTimeout(patience)
      if (error === undefined) resolve()
      else reject(error)
    }
    const client: Client = { socket: undefined as never, tail: '', ready: false, seen: '' }
    client.socket = connect({
      port,
      host: '127.0.0.1',
      localAddress: `127.0.1.${1 + Math.floor(clients.length / clientsPerAddress)}`,
      onread: {
        buffer: readBuffer,
        callback(bytes, buffer) {
          receive(client, (buffer as Buffer).subarray(0, bytes), ready)
          return true
        },
      },
    })
    client.socket.on('connect', () => client.socket.write(request))
    client.socket.on('error', (error) => ready(error))
    client.socket.on('close', () => {
      ready(new Error('closed by the server before the first message'))
      faults.push('a client was disconnected by the server')
    })
    clients.push(client)
  })
}

async function open(port: number, request: string, count: number): Promise<StreamReply> {
  const bytes = Buffer.from(request)
  let started = 0
  const lanes = Array.from({ length: openingAtOnce }, async () => {
    while (started < count) {
      started++
      await openClient(port, bytes)
    }
  })
  const beganAt = performance.now()
  await Promise.all(lanes)
  const lastMs = performance.now() - beganAt
  return { p50Ms: Number.NaN, p99Ms: Number.NaN, lastMs, faults: takeFaults() }
}

async function fire(port: number, request: string, text: string): Promise<StreamReply> {
  const publisher = connect({ port, host: '127.0.0.1', noDelay: true })
  await new Promise((resolve, reject) => publisher.on('connect', resolve).on('error', reject))
  publisher.on('data', (answer) => {
    const status = answer.toString('latin1', 9, 12)
    if (status !== '201') faults.push(`publishing was answered ${status}`)
  })
  let patience: NodeJS.Timeout | undefined
  const everybody = new Promise<void>((resolve) => {
    complete = resolve
    patience = setTimeout(resolve, fireTimeoutMs)
  })
  arrivals = []
  marker = text
  startedAt = performance.now()
  publisher.write(request)
  await everybody
  clearTimeout(patience)
  marker = undefined
  publisher.destroy()
  if (arrivals.length < clients.length) {
    faults.push(`${clients.length - arrivals.length} clients without the event after ${fireTimeoutMs} ms`)
  }
  const lastMs = arrivals.length < clients.length ? Number.NaN : arrivals[arrivals.length - 1]!
  return { p50Ms: quantile(arrivals, 0.5), p99Ms: quantile(arrivals, 0.99), lastMs, faults: takeFaults() }
}

function takeFaults(): string[] {
  const counts = new Map<string, number>()
  for (const fault of faults) counts.set(fault, (counts.get(fault) ?? 0) + 1)
  faults = []
  return [...counts].map(([text, count]) => `${count} × ${text}`)
}

answerTasks<StreamTask, StreamReply>((task) =>
  task.kind === 'open' ? open(task.port, task.request, task.clients) : fire(task.port, task.request, task.marker),
)
