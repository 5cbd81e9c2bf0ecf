import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http'
import { createParser } from 'eventsource-parser'

export interface StreamOptions {
  lastEventId?: string
  key?: string
  headers?: OutgoingHttpHeaders
}

export interface StreamMessage<Data = unknown> {
  /** Id in this message's frame; undefined if the frame had none. */
  id: string | undefined
  /** SSE event name; undefined is the default, which EventSource.onmessage receives. */
  event: string | undefined
  /** Number of data lines in the frame. */
  dataLines: number
  /** The parsed JSON of the data. */
  json: Data
}

export interface Stream {
  status: number
  headers: IncomingHttpHeaders
  /** All messages so far, read or not. */
  messages: StreamMessage[]
  /** Waits for the first message after the last one returned that satisfies the predicate; others are skipped. */
  next<Data = unknown>(predicate: (json: Data) => boolean, timeoutMs?: number): Promise<StreamMessage<Data>>
  /** Resolves when the server has ended the stream or the connection is lost. */
  ended: Promise<void>
  close(): void
}

/** Opens a stream of Server-Sent Events and resolves when the headers have arrived. */
export function openStream(baseUrl: string, path: string, options: StreamOptions = {}): Promise<Stream> {
  const headers: OutgoingHttpHeaders = { accept: 'text/event-stream', ...options.headers }
  if (options.lastEventId !== undefined) headers['last-event-id'] = options.lastEventId
  if (options.key !== undefined) headers['x-monitor-key'] = options.key

  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(baseUrl)
    const outgoing = request({ hostname, port, path, headers, agent: false }, (response) => {
      const messages: StreamMessage[] = []
      const waiting = new Set<() => void>()
      let position = 0
      let hasEnded = false
      const wakeAll = () => {
        for (const wake of [...waiting]) wake()
      }

      const parser = createParser({
        onEvent: ({ id, event, data }) =>
          messages.push({ id, event, dataLines: data.split('\n').length, json: JSON.parse(data) }),
      })
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        parser.feed(chunk)
        wakeAll()
      })
      const ended = new Promise<void>((done) => {
        response.once('close', () => {
          hasEnded = true
          wakeAll()
          done()
        })
      })
      // A cut connection shows as the end of the stream; what it cost is for the test to judge.
      response.on('error', () => {})

      const next: Stream['next'] = <Data>(predicate: (json: Data) => boolean, timeoutMs = 60_000) =>
        new Promise<StreamMessage<Data>>((found, missed) => {
          const settle = (act: () => void) => {
            clearTimeout(timer)
            waiting.delete(look)
            act()
          }
          const miss = (why: string) => {
            const seen = messages.slice(-12).map((message) => JSON.stringify(message.json))
            settle(() => missed(new Error(`no such message: ${why}; the last ones:\n${seen.join('\n')}`)))
          }
          const look = () => {
            for (; position < messages.length; position++) {
              const message = messages[position] as StreamMessage<Data>
              if (!predicate(message.json)) continue
              position++
              settle(() => found(message))
              return
            }
            if (hasEnded) miss('the stream has ended')
          }
          const timer = setTimeout(() => miss(`waited ${timeoutMs} ms`), timeoutMs)
          waiting.add(look)
          look()
        })

      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        messages,
        next,
        ended,
        close: () => outgoing.destroy(),
      })
    })
    outgoing.on('error', reject)
    outgoing.end()
  })
}
