import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Pace } from './pace.ts'
import { unrefTimeout } from './repeat.ts'
import { isPlain, maxBytes, retryAfterMs, retryWithin, type Service } from './service.ts'

/** A control message has a few hundred characters. The limit keeps an endless line from filling the memory. */
const maxCharacters = 64 * 1024

interface ListenOptions {
  service: Service
  path: string
  pace: Pace
  signal: AbortSignal
  /** Called with the data of one message. */
  onData(text: string): void
  /** Called for every chunk, including keepalives. */
  onAlive(): void
}

/** Messages have a few hundred bytes and are rare. More than `maxBytes` plus this rate is treated as a flood. */
const bytesPerMs = 10

/** How a connection ended. */
export interface Ended {
  /** HTTP status; 0 when no answer arrived. */
  status: number
  /** Milliseconds to wait before reconnecting, if the service sent them. */
  retryMs: number | undefined
}

/**
 * Splits a text stream into lines, independent of chunk boundaries. The reader returns false when a line is too long. A
 * full event-stream parser is not needed, because each control message is one line of data.
 */
export function lineReader(onLine: (line: string) => void): (chunk: string) => boolean {
  let rest = ''
  return (chunk) => {
    const lines = (rest + chunk).split(/\r\n|\n/)
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line)
    return rest.length <= maxCharacters
  }
}

/**
 * Listens to the control stream over one connection until it ends; never rejects. Uses `node:http`, because an open
 * `fetch` response would keep the process alive; this request's socket is unref'ed.
 */
export async function listen({ service, path, pace, signal, onData, onAlive }: ListenOptions): Promise<Ended> {
  const url = service.url(path)
  const { request } = await (url.protocol === 'https:' ? import('node:https') : import('node:http'))
  return new Promise<Ended>((resolve) => {
    const ended: Ended = { status: 0, retryMs: undefined }
    const startedAt = performance.now()
    let characters = 0
    let cancelTimer = () => {}
    const connection: ClientRequest = request(url, {
      agent: false,
      headers: { ...service.headers, accept: 'text/event-stream' },
    })
    const end = () => {
      cancelTimer()
      signal.removeEventListener('abort', end)
      connection.destroy()
      resolve(ended)
    }
    const endUnlessAlive = (ms: number) => {
      cancelTimer()
      cancelTimer = unrefTimeout(ms, end)
    }
    const readLine = lineReader((line) => {
      if (line.startsWith('data:')) onData(line.slice(5).trimStart())
      else if (/^retry: ?\d{1,6}$/.test(line)) ended.retryMs = retryWithin(Number(line.slice(6)))
    })
    if (signal.aborted) return end()
    signal.addEventListener('abort', end)
    endUnlessAlive(pace.streamStart)
    connection.on('socket', (socket) => socket.unref())
    connection.on('error', end)
    connection.on('close', end)
    connection.on('response', (response: IncomingMessage) => {
      ended.status = response.statusCode ?? 0
      ended.retryMs = retryAfterMs(response.headers['retry-after'])
      response.on('error', end)
      response.on('close', end)
      if (ended.status !== 200 || !isPlain(response.headers['content-encoding'])) return end()
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        endUnlessAlive(pace.streamSilence)
        characters += chunk.length
        const isFlood = characters > maxBytes + bytesPerMs * (performance.now() - startedAt)
        if (isFlood || !readLine(chunk)) return end()
        onAlive()
      })
    })
    connection.end()
  })
}
