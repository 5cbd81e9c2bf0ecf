import { connect } from 'node:net'
import type { Service } from './service.ts'

export interface ControlClient {
  /** Resolves with the time (performance.now) of the next message. */
  next(): Promise<number>
  close(): void
}

const timeoutMs = 10_000

/** Opens the control stream of an instance; resolves after the first message, the current state. `query` follows the path. */
export async function followControl(service: Service, instanceId: string, query = ''): Promise<ControlClient> {
  const waiting: ((at: number) => void)[] = []
  const socket = connect(service.port, '127.0.0.1')
  socket.on('data', (chunk) => {
    if (!chunk.includes('data: {')) return
    waiting.shift()?.(performance.now())
  })
  const next = () =>
    new Promise<number>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`No control message within ${timeoutMs} ms.`)), timeoutMs)
      waiting.push((at) => {
        clearTimeout(timer)
        resolve(at)
      })
    })
  const first = next()
  socket.write(service.prepare('GET', `/api/instances/${instanceId}/control${query}`))
  await first
  return { next, close: () => socket.destroy() }
}
