import { openApiDocument } from '@wardline/contract'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { version } from '../version.ts'
import { createServer, type ServerTools } from './server.ts'

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
<li>For agents: <a href="/sdk.tgz">@wardline/sdk</a>, <a href="/wardline.py">wardline.py</a></li>
</ul>
</html>
`

const homePolicy =
  "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

/** Sends a list of links as `/`, for programs and for a build without the dashboard. */
export function sendHome(reply: FastifyReply): void {
  reply
    .headers({ 'content-security-policy': homePolicy, 'referrer-policy': 'no-referrer' })
    .type('text/html; charset=utf-8')
    .send(home)
}

// The reference page sets its styles by script.
const referencePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

/** Creates the pages under `/docs` as a server that never listens. The first request loads its 150 modules. */
async function openPages(tools: ServerTools): Promise<FastifyInstance> {
  const [{ default: swagger }, { default: swaggerUi }] = await Promise.all([
    import('@fastify/swagger'),
    import('@fastify/swagger-ui'),
  ])
  const pages = createServer(tools)
  await pages.register(swagger, { mode: 'static', specification: { document: openApiDocument(version) as never } })
  await pages.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: referencePolicy,
    // The top bar is for browsing the API documents of other services.
    theme: {
      title: 'Wardline API',
      css: [{ filename: 'wardline.css', content: '.swagger-ui .topbar { display: none }' }],
    },
    // The validator is an external service.
    uiConfig: { validatorUrl: null, docExpansion: 'list' } as never,
  })
  return pages.ready().then(() => pages)
}

/** Mounts `/openapi.json` and `/docs`. All files are served from this process, none from a CDN. */
export function mountReference(app: FastifyInstance, tools: ServerTools): void {
  let text: string | undefined
  // Serialized once: the document has 150 KiB and anyone can request it repeatedly without a key.
  const sendDocument = (_request: FastifyRequest, reply: FastifyReply) => {
    text ??= JSON.stringify(openApiDocument(version))
    reply.type('application/json; charset=utf-8').send(text)
  }
  let pages: Promise<FastifyInstance> | undefined
  async function servePage(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    pages ??= openPages(tools)
    const { routing } = await pages
    reply.hijack()
    routing(request.raw, reply.raw)
  }
  for (const url of ['/docs', '/docs/*']) app.route({ method: ['GET', 'HEAD'], url, handler: servePage })
  for (const url of ['/openapi.json', '/docs/json']) app.get(url, sendDocument)
}
