import { connect, createServer, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createMetrics } from '../metrics.ts'
import { fits, StreamBacklog } from './stream-backlog.ts'

const MiB = 1024 * 1024
const open: Socket[] = []
const server = createServer()
let nextSocket: (socket: Socket) => void
server.on('connection', (socket) => {
  open.push(socket)
  nextSocket(socket.on('error', () => {}))
})
beforeEach(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)))
afterEach(async () => {
  for (const socket of open.splice(0)) socket.destroy()
  await new Promise((resolve) => server.close(resolve))
})

/** Opens both ends of a connection whose client reads nothing until `resume`. */
async function pair(): Promise<{ socket: Socket; client: Socket }> {
  const accepted = new Promise<Socket>((resolve) => {
    nextSocket = resolve
  })
  const client = connect((server.address() as { port: number }).port, '127.0.0.1')
  open.push(client.pause().on('error', () => {}))
  return { socket: await accepted, client }
}

const cuts = async (metrics: ReturnType<typeof createMetrics>) =>
  Object.fromEntries((await metrics.streamCuts.get()).values.map(({ labels, value }) => [labels.reason, value]))

/** Fills the kernel's buffers, so that all further bytes wait in this process. */
function fillKernel(socket: Socket): void {
  while (socket.writableLength === 0) socket.write(Buffer.alloc(MiB))
}

describe('the backlog of streams', () => {
  it('allows 64 KiB or one larger frame to wait for a client', async () => {
    const { socket } = await pair()
    expect(fits(socket, 10 * MiB)).toBe(true)
    fillKernel(socket)
    expect(fits(socket, 1)).toBe(socket.writableLength + 1 <= 64 * 1024)
    expect(fits(socket, 64 * 1024)).toBe(false)
  })

  // Thousands of clients that read nothing must not fill the memory of the service.
  it('cuts the largest streams first if all together exceed the limit, and counts the cuts', async () => {
    const metrics = createMetrics()
    const backlog = new StreamBacklog(metrics, 20 * MiB)
    const pairs = [await pair(), await pair(), await pair(), await pair()]
    for (const { socket } of pairs) fillKernel(socket)
    const sockets = pairs.map(({ socket }) => socket)
    for (const [index, socket] of sockets.entries()) backlog.write(socket, Buffer.alloc((index + 1) * MiB))
    expect(sockets.some(({ destroyed }) => destroyed)).toBe(false)
    const waiting = () =>
      sockets.reduce((sum, { destroyed, writableLength }) => sum + (destroyed ? 0 : writableLength), 0)
    for (let written = 0; written < 20 && !sockets[3]!.destroyed; written++)
      backlog.write(sockets[3]!, Buffer.alloc(MiB))
    expect(sockets.map(({ destroyed }) => destroyed)).toEqual([false, false, false, true])
    expect(waiting()).toBeLessThanOrEqual(15 * MiB)
    expect(await cuts(metrics)).toEqual({ memory: 1 })
  })

  it('recounts the bytes that clients read meanwhile before it cuts one', async () => {
    const metrics = createMetrics()
    const backlog = new StreamBacklog(metrics, 8 * MiB)
    const { socket, client } = await pair()
    fillKernel(socket)
    client.resume()
    for (let written = 0; written < 40; written++) {
      await new Promise<void>((sent) => backlog.write(socket, Buffer.alloc(MiB), sent))
    }
    expect(socket.destroyed).toBe(false)
    expect(await cuts(metrics)).toEqual({})
  })

  it('cuts only clients that read nothing between two checks', async () => {
    const metrics = createMetrics()
    const backlog = new StreamBacklog(metrics)
    const [stalled, reading, idle] = [await pair(), await pair(), await pair()]
    for (const { socket } of [stalled, reading]) {
      fillKernel(socket)
      for (let frames = 0; frames < 100; frames++) backlog.write(socket, Buffer.alloc(64 * 1024))
    }
    backlog.write(idle.socket, 'a frame')
    backlog.cutStalled()
    const before = reading.socket.writableLength
    reading.client.resume()
    while (reading.socket.writableLength === before) await turn()
    reading.client.pause()
    backlog.cutStalled()
    expect([stalled, reading, idle].map(({ socket }) => socket.destroyed)).toEqual([true, false, false])
    expect(await cuts(metrics)).toEqual({ stalled: 1 })
  })
})
