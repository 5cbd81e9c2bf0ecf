import { endpoints } from '@wardline/contract'
import type { FastifyInstance } from 'fastify'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { Router } from '../../http/route.ts'
import { createTrustSnapshot } from './trust.ts'

export function mountTrust(router: Router, deps: Deps, { app }: { app: FastifyInstance }): void {
  const snapshot = createTrustSnapshot(deps)

  router.handle('getTrust', async (_input, reply) => {
    // Public data, no cookies: any page may read it, and no origin is ever reflected.
    reply.header('access-control-allow-origin', '*')
    if (!deps.config.trustEnabled) {
      reply.header('cache-control', 'no-store')
      throw new AppError('disabled', 'The public trust summary is disabled.')
    }
    const body = await snapshot()
    reply.header('cache-control', 'public, max-age=60')
    reply.type('application/json; charset=utf-8')
    return body as never
  })

  app.options(endpoints.getTrust.path, (_request, reply) => {
    if (!deps.config.trustEnabled) throw new AppError('disabled', 'The public trust summary is disabled.')
    reply.headers({
      'access-control-allow-origin': '*',
      'access-control-allow-methods': 'GET',
      'access-control-max-age': '86400',
    })
    reply.code(204).send()
  })
}
