import { type LiveBatch, openLiveConnection } from './live-connection.ts'

// A worker that all pages of this browser share: one stream, however many tabs are open.

/** A page says this often that it is there; timers of hidden pages run once a minute. */
const forgottenAfterMs = 150_000

const ports = new Map<MessagePort, number>()

function deliver(batch: LiveBatch): void {
  const now = Date.now()
  for (const [port, seenAt] of ports) {
    if (now - seenAt > forgottenAfterMs) ports.delete(port)
    else port.postMessage(batch)
  }
}

const connection = openLiveConnection(deliver)

const scope = globalThis as unknown as { onconnect: (event: MessageEvent) => void }
scope.onconnect = ({ ports: [port] }) => {
  if (!port) return
  port.onmessage = ({ data }: MessageEvent<'here' | 'wake' | 'leave'>) => {
    if (data === 'leave') return void ports.delete(port)
    if (!ports.has(port)) port.postMessage(connection.state())
    ports.set(port, Date.now())
    if (data === 'wake') connection.wake()
  }
}
