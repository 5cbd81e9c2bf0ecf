import type { Deps } from '../deps.ts'
import type { Readiness } from './readiness.ts'
import type { Router } from './route.ts'

/** What an orchestrator and a monitoring system ask: alive, ready, metrics. */
export function mountOperations(
  router: Router,
  { metrics }: Pick<Deps, 'metrics'>,
  { readiness }: { readiness: Readiness },
): void {
  // Liveness must not depend on the database: a restart does not repair a disk.
  router.handle('getHealth', () => ({ ok: true }))

  router.handle('getReadiness', async (_input, reply) => {
    const ready = await readiness()
    if (!ready.ok) reply.code(503)
    // Without its backplane a process still stores events and answers polls correctly: removing it would only do harm.
    return ready
  })

  router.handle('getMetrics', async (_input, reply) => {
    reply.type(metrics.registry.contentType)
    return (await metrics.registry.metrics()) as never
  })
}
