import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Deps } from '../../deps.ts'
import { plainAddress } from '../../http/actor.ts'
import type { Principal } from '../../http/auth.ts'
import { createReadiness } from '../../http/readiness.ts'

export interface KeyParts {
  keyring: {
    find(presented: string, isLast?: boolean): Principal | undefined
    findStored(presented: string): Promise<Principal | undefined>
  }
  probing: { badKey(address: string | null): number | undefined; isWaiting(address: string | null): boolean }
}

/** Finds a key, also one that another process has just created. */
export const findPrincipal = async (
  { keyring, probing }: KeyParts,
  presented: string,
  address: string | null,
): Promise<Principal | undefined> =>
  keyring.find(presented, false) ??
  (probing.isWaiting(address) ? keyring.find(presented) : keyring.findStored(presented))

function answer(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' })
  response.end(JSON.stringify(body))
}

/**
 * Returns what answers health, readiness and metrics on the port of the gateway, which may be the only one of its process.
 * Agents reach it, so metrics always need a key that may read.
 */
export function createOperations(deps: Deps, parts: KeyParts) {
  const readiness = createReadiness(deps)
  const paths: Record<string, (request: IncomingMessage, response: ServerResponse) => Promise<void>> = {
    '/healthz': async (_, response) => answer(response, 200, { ok: true }),
    '/readyz': async (_, response) => {
      const ready = await readiness()
      answer(response, ready.ok ? 200 : 503, ready)
    },
    '/metrics': async ({ headers, socket }, response) => {
      const presented = headers['x-monitor-key']
      const address = plainAddress(socket.remoteAddress)
      const principal = typeof presented === 'string' ? await findPrincipal(parts, presented, address) : undefined
      if (!principal || principal.scope === 'agent') {
        if (!principal && presented !== undefined) parts.probing.badKey(address)
        return answer(response, principal ? 403 : 401, { error: 'A key of scope viewer is required in X-Monitor-Key.' })
      }
      const { registry } = deps.metrics
      response.writeHead(200, { 'content-type': registry.contentType }).end(await registry.metrics())
    },
  }
  return (path: string) => (Object.hasOwn(paths, path) ? paths[path] : undefined)
}
