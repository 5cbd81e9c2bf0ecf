import { type LiveBatch, openLiveConnection } from './live-connection.ts'
import { keepSessionSecret, sessionSecret } from './storage.ts'

/** What a page sends. A worker cannot read the page's storage, so each message brings the secret of the session. */
export interface PageMessage {
  word: 'here' | 'wake' | 'leave'
  secret: string | undefined
}

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

let connection: ReturnType<typeof openLiveConnection> | undefined

const scope = globalThis as unknown as { onconnect: (event: MessageEvent) => void }
scope.onconnect = ({ ports: [port] }) => {
  if (!port) return
  port.onmessage = ({ data: { word, secret } }: MessageEvent<PageMessage>) => {
    if (word === 'leave') return void ports.delete(port)
    const isNew = secret !== sessionSecret()
    keepSessionSecret(secret)
    connection ??= openLiveConnection(deliver)
    if (!ports.has(port)) port.postMessage(connection.state())
    ports.set(port, Date.now())
    if (word === 'wake' || isNew) connection.wake()
  }
}
