import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../../config/config.ts'
import { matchesTag } from '../../http/etag.ts'
import { sendHome } from '../../http/reference.ts'
import { sendUnknownRoute } from '../../http/server.ts'
import { type BuiltDashboard, type BuiltFile, builtFolder, encodings, readDashboard } from './built-files.ts'

/**
 * These pages show texts from agents. The policy runs only our scripts, sends nothing to other origins and forbids
 * framing. Trusted Types also keep a text from becoming markup or a script address by mistake.
 */
const policy =
  "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types wardline"
const headers = {
  'content-security-policy': policy,
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  vary: 'accept, accept-encoding',
}

const asksForPage = ({ headers: { accept } }: FastifyRequest) => accept?.includes('text/html') === true
const pathOf = ({ url }: FastifyRequest) => url.split('?')[0]!

function sendFile({ headers: asked }: FastifyRequest, reply: FastifyReply, file: BuiltFile, cache: string): void {
  reply.headers({ ...headers, etag: file.etag, 'cache-control': cache })
  if (reply.statusCode === 200 && matchesTag(asked['if-none-match'], file.etag)) return void reply.code(304).send()
  const offered = String(asked['accept-encoding'] ?? '')
  const encoding = encodings.find(
    (name) => file.compressed[name] && new RegExp(`\\b${name}\\b(?!;q=0(\\.0*)?(,|$))`).test(offered),
  )
  if (encoding) reply.header('content-encoding', encoding)
  reply.type(file.contentType).send(encoding ? file.compressed[encoding] : file.bytes)
}

function sendPage(request: FastifyRequest, reply: FastifyReply, { page, isScreen }: BuiltDashboard): void {
  sendFile(request, reply.code(isScreen(pathOf(request)) ? 200 : 404), page, 'no-cache')
}

interface DashboardPages {
  mount(app: FastifyInstance): void
  /** Handles requests that match no route: serves a file or a page, or a JSON error for programs. */
  answerUnknown(request: FastifyRequest, reply: FastifyReply): void
}

/** Creates the dashboard's pages. Requests that do not accept HTML get JSON, and at `/` the list of addresses. */
export function createDashboardPages({ trustEnabled }: Pick<Config, 'trustEnabled'>): DashboardPages {
  const built = readDashboard(builtFolder, trustEnabled ? [] : ['/trust'])
  return {
    mount(app) {
      app.route({
        method: ['GET', 'HEAD'],
        url: '/',
        handler: (request, reply) => {
          if (built && asksForPage(request)) sendPage(request, reply, built)
          else sendHome(reply)
        },
      })
    },
    // Not a catch-all route, because the router would also use it for paths whose parameters are too long or malformed.
    answerUnknown(request, reply) {
      const isRead = request.method === 'GET' || request.method === 'HEAD'
      const asset = isRead ? built?.assets.get(pathOf(request)) : undefined
      if (asset) sendFile(request, reply.code(200), asset, 'public, max-age=31536000, immutable')
      else if (isRead && built && asksForPage(request)) sendPage(request, reply, built)
      else sendUnknownRoute(request, reply)
    },
  }
}
