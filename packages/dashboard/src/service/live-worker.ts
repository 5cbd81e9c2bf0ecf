import { type LiveBatch, openLiveConnection } from './live-connection.ts'

// A worker shared by all pages of this browser: one stream, however many tabs are open.

/** A page that sends no sign of life for this long is removed. Timers of hidden pages run only once a minute. */
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
