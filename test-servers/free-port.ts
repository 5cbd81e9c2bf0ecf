import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** Starts a server on a free port of 127.0.0.1. Resolves with the port. */
export async function startOnFreePort(start: (port: number) => Promise<void>, attemptsLeft = 5): Promise<number> {
  const port = await freePort()
  try {
    await start(port)
    return port
  } catch (fault) {
    // Another process took the port between the check and the start of the server.
    if (attemptsLeft === 0 || !/Address already in use/.test((fault as Error).message)) throw fault
    return startOnFreePort(start, attemptsLeft - 1)
  }
}
