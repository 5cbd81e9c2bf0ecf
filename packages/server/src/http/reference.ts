import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import { openApiDocument } from '@wardline/contract'
import type { FastifyInstance } from 'fastify'
import { version } from '../version.ts'

const home = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Wardline</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem;color-scheme:light dark}</style>
<h1>Wardline</h1>
<p>Security monitor for fleets of AI agents: heartbeats, events, kill switch, decoys.</p>
<ul>
<li><a href="/docs">API reference</a> (<a href="/openapi.json">OpenAPI 3.1</a>)</li>
<li><a href="/api/stream">Live events</a></li>
<li><a href="/api/public/trust">Public trust summary</a></li>
<li><a href="/metrics">Metrics</a></li>
</ul>
</html>
`

const homePolicy =
  "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// The reference page sets its styles by script.
const referencePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

/** `/`, `/openapi.json` and `/docs`. Every byte comes from this process. */
export async function mountReference(app: FastifyInstance): Promise<void> {
  const document = openApiDocument(version)
  await app.register(swagger, { mode: 'static', specification: { document: document as never } })
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: referencePolicy,
    // The bar at the top is for browsing the documents of other services.
    theme: {
      title: 'Wardline API',
      css: [{ filename: 'wardline.css', content: '.swagger-ui .topbar { display: none }' }],
    },
    // The validator is a service elsewhere.
    uiConfig: { validatorUrl: null, docExpansion: 'list' } as never,
  })
  app.get('/openapi.json', (_request, reply) => {
    reply.send(document)
  })
  app.get('/', (_request, reply) => {
    reply
      .headers({ 'content-security-policy': homePolicy, 'referrer-policy': 'no-referrer' })
      .type('text/html; charset=utf-8')
      .send(home)
  })
}
