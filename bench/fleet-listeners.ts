import { connect } from 'node:net'
import { answerTasks } from './helper.ts'

/**
 * `listen`: opens the control streams of this many instances, and returns when each has its state. `await`: waits until
 * each has one more message. `acks`: the request that confirms it, over a separate connection, like agents do.
 */
export type ListenersTask = { kind: 'listen'; port: number; requests: string[]; acks?: string[] } | { kind: 'await' }
/** Arrival times of the messages in milliseconds since the epoch, with a fraction. */
export type ListenersReply = { times: number[] }

/** Connections that are opened concurrently, fewer than the backlog of a listening socket. */
const opening = 100
const delivered: Promise<number>[] = []

/** Resolves with the state of the instance; `delivered` has the messages after it. */
function follow(port: number, request: string, ack: string | undefined): Promise<void> {
  return new Promise((ready, reject) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('error', reject)
    let hasState = false
    delivered.push(
      new Promise((resolve) => {
        socket.on('data', (chunk) => {
          if (!chunk.includes('data: {')) return
          if (hasState) {
            resolve(performance.timeOrigin + performance.now())
            if (ack !== undefined) confirm(port, ack)
          }
          hasState = true
          ready()
        })
      }),
    )
    socket.write(request)
  })
}

function confirm(port: number, ack: string): void {
  const socket = connect(port, '127.0.0.1')
  socket.on('data', () => {})
  socket.write(ack)
}

answerTasks<ListenersTask, ListenersReply>(async (task) => {
  if (task.kind === 'await') return { times: await Promise.all(delivered) }
  for (let at = 0; at < task.requests.length; at += opening) {
    const part = task.requests.slice(at, at + opening)
    await Promise.all(part.map((request, index) => follow(task.port, request, task.acks?.[at + index])))
  }
  return { times: [] }
})
