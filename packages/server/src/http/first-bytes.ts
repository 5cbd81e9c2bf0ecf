import type { Socket } from 'node:net'

/**
 * First bytes kept of a connection, as many as node accepts for the head of a request. 500 connections wait at most,
 * so all of them keep 4 MiB.
 */
const maxBytes = 8 * 1024
/** Requests looked for in these bytes; each costs a look-up. */
const maxLines = 16

interface RequestLine {
  method: string
  /** The rest of the line: a client that writes no valid request may write blanks in it. */
  target: string
}

/**
 * The first bytes of a connection. They show what was requested where node reports no request: its bytes are not quite
 * HTTP, or the request is not complete when the connection ends.
 */
export class FirstBytes {
  #text = ''
  #isUnread = false
  readonly #reported = new Set<string>()

  constructor(socket: Socket) {
    // Before node's listener, which closes the connection on the bytes that explain why.
    socket.prependListener('data', (chunk: Buffer) => {
      const room = maxBytes - this.#text.length
      if (room > 0) this.#text += chunk.toString('latin1', 0, room)
    })
  }

  /** Notes a request that node reported. */
  report(target: string): void {
    this.#reported.add(target)
  }

  /** Notes that node leaves the rest of the connection unread. What follows a request otherwise is its body. */
  endReading(): void {
    this.#isUnread = true
  }

  /** Returns the lines that look like requests, but for those that node reported. */
  unreported(): RequestLine[] {
    if (this.#reported.size > 0 && !this.#isUnread) return []
    return this.#text
      .split(/[\r\n]+/)
      .flatMap((line) => requestIn(line.trim()) ?? [])
      .filter(({ target }) => !this.#reported.has(target))
      .slice(0, maxLines)
  }
}

/** The first word of a header ends in a colon. */
function requestIn(line: string): RequestLine | undefined {
  const [, method, rest] = /^([^\s:]{1,20})\s+(.*)$/.exec(line) ?? []
  return method === undefined ? undefined : { method, target: rest!.replace(/\sHTTP\/[\d.]+$/, '').trimEnd() }
}
