import { connect, type Socket } from 'node:net'
import { answerTasks } from './helper.ts'
import { quantile } from './statistics.ts'

/** Prepared requests, sent in turn, one at a time on each of this many keep-alive connections. */
export type LoadTask = {
  port: number
  connections: number
  /** Complete HTTP/1.1 requests with head and body. */
  requests: string[]
  /** The run ends after this many seconds, or earlier after `limit` responses. */
  seconds: number
  limit?: number
  /** Any other status is a fault. */
  expect: number[]
  /** Text that every response body must contain. */
  mustContain?: string
}

/** Latencies in milliseconds over all responses. `faults` counts unexpected results by description. */
export type LoadResult = {
  answers: number
  seconds: number
  perSecond: number
  meanMs: number
  p50Ms: number
  p99Ms: number
  /** Share of one core that this generator used. Near 1, the generator may limit the figure. */
  generatorCpu: number
  faults: Record<string, number>
}

type Connection = { socket: Socket; sentAt: number; pending: Buffer | undefined; open: boolean }

const headTerminator = Buffer.from('\r\n\r\n')
const drainMs = 5_000

/** Reads every connection through one buffer, so that complete responses need no allocation. */
async function runLoad(task: LoadTask): Promise<LoadResult> {
  const requests = task.requests.map((request) => Buffer.from(request))
  const mustContain = task.mustContain === undefined ? undefined : Buffer.from(task.mustContain)
  const limit = task.limit ?? Number.POSITIVE_INFINITY
  const readBuffer = Buffer.allocUnsafe(256 * 1024)
  const faults = new Map<string, number>()
  const fault = (text: string) => faults.set(text, (faults.get(text) ?? 0) + 1)
  let latencies = new Float64Array(1 << 16)
  let answers = 0
  let sent = 0
  let inFlight = 0
  let deadline = Number.POSITIVE_INFINITY
  let lastAnswerAt = 0
  let finish: () => void = () => {}
  const finished = new Promise<void>((resolve) => {
    finish = resolve
  })

  function send(connection: Connection): void {
    if (sent >= limit || performance.now() >= deadline) {
      if (inFlight === 0) finish()
      return
    }
    inFlight++
    connection.sentAt = performance.now()
    connection.socket.write(requests[sent++ % requests.length]!)
  }

  function receive(connection: Connection, chunk: Buffer): void {
    const data = connection.pending === undefined ? chunk : Buffer.concat([connection.pending, chunk])
    const answer = measureAnswer(data)
    if (answer === undefined || answer.bytes > data.length) {
      connection.pending = Buffer.from(data)
      return
    }
    connection.pending = undefined
    if (answer.bytes < data.length) fault('more bytes than one answer')
    if (!task.expect.includes(answer.status)) {
      fault(`status ${answer.status}: ${data.subarray(answer.headBytes, answer.headBytes + 120).toString()}`)
    } else if (mustContain !== undefined && !data.includes(mustContain)) {
      fault(`answer without ${task.mustContain}: ${data.subarray(answer.headBytes, answer.headBytes + 120).toString()}`)
    }
    const now = performance.now()
    inFlight--
    if (now < deadline) {
      if (answers === latencies.length) latencies = grow(latencies)
      latencies[answers++] = now - connection.sentAt
      lastAnswerAt = now
    }
    send(connection)
  }

  function open(): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const connection: Connection = { socket: undefined as never, sentAt: 0, pending: undefined, open: true }
      connection.socket = connect({
        port: task.port,
        host: '127.0.0.1',
        noDelay: true,
        onread: {
          buffer: readBuffer,
          callback(bytes, buffer) {
            receive(connection, (buffer as Buffer).subarray(0, bytes))
            return true
          },
        },
      })
      connection.socket.on('connect', () => resolve(connection))
      connection.socket.on('error', (error) => {
        fault(`connection: ${error.message}`)
        reject(error)
      })
      connection.socket.on('close', () => {
        if (connection.open) fault('connection closed by the server')
        connection.open = false
      })
    })
  }

  const connections = await Promise.all(Array.from({ length: task.connections }, open))
  const cpuBefore = process.cpuUsage()
  const startedAt = performance.now()
  deadline = startedAt + task.seconds * 1000
  // Requests in progress at the deadline are not counted, but awaited, so that the server is idle afterwards.
  const drained = setTimeout(
    () => {
      fault(`no answer within ${drainMs} ms after the end`)
      finish()
    },
    task.seconds * 1000 + drainMs,
  )
  for (const connection of connections) send(connection)
  await finished
  clearTimeout(drained)
  const cpu = process.cpuUsage(cpuBefore)
  const wallMs = performance.now() - startedAt
  for (const connection of connections) {
    connection.open = false
    connection.socket.destroy()
  }
  const seconds = (sent >= limit ? lastAnswerAt - startedAt : task.seconds * 1000) / 1000
  if (answers === 0) fault('no answer at all')
  const sorted = latencies.subarray(0, answers).sort()
  return {
    answers,
    seconds,
    perSecond: answers / seconds,
    meanMs: sorted.reduce((sum, value) => sum + value, 0) / answers,
    p50Ms: quantile(sorted, 0.5),
    p99Ms: quantile(sorted, 0.99),
    generatorCpu: (cpu.user + cpu.system) / 1000 / wallMs,
    faults: Object.fromEntries(faults),
  }
}

/** Returns undefined until the head is complete. A response with a body must have a Content-Length. */
function measureAnswer(data: Buffer): { status: number; headBytes: number; bytes: number } | undefined {
  const headEnd = data.indexOf(headTerminator)
  if (headEnd < 0) return undefined
  const status = (data[9]! - 48) * 100 + (data[10]! - 48) * 10 + data[11]! - 48
  const headBytes = headEnd + 4
  if (status === 304 || status === 204) return { status, headBytes, bytes: headBytes }
  const head = data.toString('latin1', 0, headEnd)
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)
  if (length === null) throw new Error(`An answer without Content-Length cannot be measured:\n${head}`)
  return { status, headBytes, bytes: headBytes + Number(length[1]) }
}

function grow(values: Float64Array<ArrayBuffer>): Float64Array<ArrayBuffer> {
  const larger = new Float64Array(values.length * 2)
  larger.set(values)
  return larger
}

answerTasks(runLoad)
