import { endpoints } from '@wardline/contract'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { Router } from '../../http/route.ts'
import { badgeOf, badgeSvg, offBadge } from './badge.ts'
import { agentRegistration, createTrustSnapshot, signedAttestation } from './trust.ts'

/** Other sites embed badges. An SVG opened directly is a page, so nothing in it may run or load anything. */
const badgeHeaders = {
  'access-control-allow-origin': '*',
  'cross-origin-resource-policy': 'cross-origin',
  'content-security-policy': "default-src 'none'; sandbox",
}

/** Public data, which is the same for everyone. */
const publicCache = 'public, max-age=60'

export function mountTrust(router: Router, deps: Deps, { app }: { app: FastifyInstance }): void {
  const snapshot = createTrustSnapshot(deps)

  router.handle('getTrust', async (_input, reply) => {
    // Public data without cookies, so any page may read it. The origin is never reflected.
    reply.header('access-control-allow-origin', '*')
    if (!deps.config.trustEnabled) throw new AppError('disabled', 'The public trust summary is disabled.')
    const { body } = await snapshot()
    reply.header('cache-control', publicCache)
    reply.type('application/json; charset=utf-8')
    return body as never
  })

  router.handle('getAttestation', async ({ params }, reply) => {
    reply.header('access-control-allow-origin', '*')
    if (!deps.config.trustEnabled) throw new AppError('not_found', 'The public trust summary is disabled.')
    const signed = await signedAttestation(deps, params.uid)
    if (signed === undefined) throw new AppError('not_found', `No signed attestation has the uid ${params.uid}.`)
    reply.header('cache-control', publicCache)
    reply.type('application/json; charset=utf-8')
    return signed as never
  })

  /**
   * Returns the badge of the current snapshot. If the summary fails, the badge says unknown, because an error response
   * would show as a broken image.
   */
  async function readBadge(reply: FastifyReply) {
    const badge = await snapshot().then(
      ({ summary }) => badgeOf(summary),
      (fault) => {
        deps.log.error({ err: fault }, 'the trust summary cannot be made')
        return badgeOf(undefined)
      },
    )
    reply.headers(badgeHeaders)
    if (!badge.isError) reply.header('cache-control', publicCache)
    return badge
  }

  router.handle('getTrustBadge', async (_input, reply) => {
    reply.type('image/svg+xml; charset=utf-8')
    if (deps.config.trustEnabled) return badgeSvg(await readBadge(reply)) as never
    reply.headers(badgeHeaders).code(404)
    return badgeSvg(offBadge) as never
  })

  router.handle('getTrustBadgeData', async (_input, reply) => {
    if (deps.config.trustEnabled) return readBadge(reply)
    reply.header('access-control-allow-origin', '*')
    throw new AppError('not_found', 'The public trust summary is disabled.')
  })

  router.handle('getAgentRegistration', async (_input, reply) => {
    reply.header('access-control-allow-origin', '*')
    if (!deps.config.trustEnabled) throw new AppError('not_found', 'The public trust summary is disabled.')
    reply.header('cache-control', publicCache)
    return agentRegistration(deps)
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
