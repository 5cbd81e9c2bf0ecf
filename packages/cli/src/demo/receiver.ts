import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Client } from '@wardline/contract'

export const receiverName = 'Demo receiver: accepts messages and drops them'
const address = '127.0.0.1'
/** What the channel may send to, beside what the configuration allows. */
export const receiverNetwork = `${address}/32`

interface Receiver {
  url: string
  close(): void
}

/** Listens on this machine and accepts every message. A port that is in use is replaced by a free one. */
export async function openReceiver(preferredPort: number): Promise<Receiver> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(204).end())
  })
  const listen = (port: number) =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(port, address, () => {
        server.off('error', reject)
        resolve()
      })
    })
  await listen(preferredPort).catch(() => listen(0))
  // A service that cannot start ends the process.
  server.unref()
  const { port } = server.address() as AddressInfo
  return {
    url: `http://${address}:${port}/alerts`,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** Creates the channel to the receiver, or gives it the receiver's address of this run. */
export async function connectReceiver(operator: Client, url: string): Promise<void> {
  const { channels } = await operator('listChannels', {})
  const known = channels.find(({ name }) => name === receiverName)
  const settings = { url }
  if (!known) {
    await operator('createChannel', {
      body: { type: 'webhook', name: receiverName, min_severity: 'warning', daily_check: false, settings },
    })
  } else if (known.destination !== new URL(url).host) {
    await operator('changeChannel', { params: { id: known.id }, body: { settings } })
  }
}
