import type { FastifyInstance } from 'fastify'
import { probe } from '../db/health.ts'
import type { Deps } from '../deps.ts'
import { type Authenticator, authenticate } from './auth.ts'

/** What an orchestrator and a monitoring system ask: alive, ready, metrics. */
export function mountOperations(app: FastifyInstance, deps: Deps, authenticator: Authenticator): void {
  const { clock, config, database, metrics } = deps

  // Liveness must not depend on the database: a restart does not repair a disk.
  app.get('/healthz', (_request, reply) => {
    reply.send({ ok: true })
  })

  // The write is shared: however often readiness is asked, the database is probed once a second at most.
  let last = { at: -Infinity, result: Promise.resolve(false) }
  const ready = () => {
    if (clock.monotonic() - last.at < 1_000) return last.result
    const result = probe(database.db, clock.now()).then(
      () => true,
      () => false,
    )
    last = { at: clock.monotonic(), result }
    return result
  }

  app.get('/readyz', async (_request, reply) => {
    const ok = await ready()
    reply.code(ok ? 200 : 503)
    return { ok, database: ok ? 'ok' : 'unavailable', backplane: 'in-process' }
  })

  app.get('/metrics', async (request, reply) => {
    if (config.metricsAuth === 'key') await authenticate(request, ['viewer', 'operator', 'admin'], authenticator)
    reply.type(metrics.registry.contentType)
    return metrics.registry.metrics()
  })
}
