import { connect } from 'node:net'
import { answerTasks } from './helper.ts'

/** Requests that an attacker repeats on this many connections. `streams`: each response is aborted after a moment. */
export type AttackTask = {
  port: number
  connections: number
  requests: string[]
  seconds: number
  streams?: boolean
}

/** Responses by status; `cut` counts connections that closed without one. */
export type AttackReply = { statuses: Record<string, number> }

/** A stream that replays sends this many bytes immediately; reading more would slow down the attack. */
const streamBytes = 256 * 1024
const streamMs = 250

async function attack({ port, connections, requests, seconds, streams }: AttackTask): Promise<AttackReply> {
  const statuses: Record<string, number> = {}
  const count = (status: string) => {
    statuses[status] = (statuses[status] ?? 0) + 1
  }
  const deadline = performance.now() + seconds * 1000
  let sent = 0

  /** Sends one request on a new connection, or as many as the connection allows. Resolves when it is closed. */
  function connection(): Promise<void> {
    return new Promise((resolve) => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true })
      let answered = false
      let bytes = 0
      let left = 0
      const send = () => {
        if (performance.now() >= deadline) return void socket.destroy()
        answered = false
        bytes = 0
        socket.write(requests[sent++ % requests.length]!)
      }
      socket.on('connect', send)
      socket.on('error', () => {})
      socket.on('data', (chunk) => {
        bytes += chunk.length
        if (!answered) {
          answered = true
          const text = chunk.toString('latin1')
          count(text.slice(9, 12))
          const length = /\r\ncontent-length: *(\d+)/i.exec(text)?.[1]
          const headBytes = text.indexOf('\r\n\r\n') + 4
          left = length === undefined ? Number.POSITIVE_INFINITY : Number(length) + headBytes
          if (streams) setTimeout(() => socket.destroy(), streamMs)
        }
        if (streams ? bytes > streamBytes : bytes >= left) {
          if (streams) socket.destroy()
          else send()
        }
      })
      socket.on('close', () => {
        if (!answered && performance.now() < deadline) count('cut')
        resolve()
      })
      setTimeout(() => socket.destroy(), deadline - performance.now() + 1_000).unref()
    })
  }

  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (performance.now() < deadline) await connection()
    }),
  )
  return { statuses }
}

answerTasks(attack)
