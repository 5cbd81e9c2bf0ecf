import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createTestAuthority } from '../test-servers/certificate.ts'

const dayMs = 86_400_000

const edgeHeaders = {
  'strict-transport-security': 'max-age=31536000',
  'content-security-policy': "frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
}

/**
 * Stands before a service, as a proxy with a certificate. Commands trust it with `env`; what it serves is found by
 * `target`, which may be set after it started.
 */
export async function startHttpsFront(folder: string) {
  const authority = createTestAuthority()
  const file = join(folder, 'authority.pem')
  writeFileSync(file, authority.cert)
  const front = { target: '', url: '', env: { NODE_EXTRA_CA_CERTS: file }, close: () => {} }
  const certificate = authority.issue(Date.now() - dayMs, Date.now() + 60 * dayMs)
  const server = createServer(certificate, async ({ url }, response) => {
    response.setHeaders(new Map(Object.entries(edgeHeaders)))
    // The pages are not built for all tests.
    if (url === '/trust') return response.end('a page')
    const answer = await fetch(`${front.target}${url}`)
    response.writeHead(answer.status).end(await answer.text())
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  front.url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  front.close = () => {
    server.closeAllConnections()
    server.close()
  }
  return front
}
