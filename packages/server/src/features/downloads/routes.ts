import { endpoints } from '@wardline/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Deps } from '../../deps.ts'
import { matchesTag } from '../../http/etag.ts'
import type { Router } from '../../http/route.ts'
import { createDownloads, type Download } from './downloads.ts'

export function mountDownloads(router: Router, deps: Pick<Deps, 'clock' | 'log'>): void {
  const downloads = createDownloads(deps)
  const answer =
    (name: 'getSdk' | 'getPythonClient', read: () => Promise<Download>) =>
    async ({ request }: { request: FastifyRequest }, reply: FastifyReply) => {
      const { bytes, etag } = await read()
      reply.headers({ etag, 'cache-control': 'no-cache' })
      if (matchesTag(request.headers['if-none-match'], etag)) reply.code(304).send()
      else reply.type(endpoints[name].file.contentType)
      return bytes as never
    }
  router.handle('getSdk', answer('getSdk', downloads.sdk))
  router.handle('getPythonClient', answer('getPythonClient', downloads.pythonClient))
}
