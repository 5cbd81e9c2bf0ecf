import type { Deps } from '../deps.ts'
import type { Readiness } from './readiness.ts'
import type { Router } from './route.ts'

/** Mounts the endpoints for orchestrators and monitoring: liveness, readiness, metrics. */
export function mountOperations(
  router: Router,
  { metrics }: Pick<Deps, 'metrics'>,
  { readiness }: { readiness: Readiness },
): void {
  // Liveness must not depend on the database, because a restart does not repair a disk.
  router.handle('getHealth', () => ({ ok: true }))

  router.handle('getReadiness', async (_input, reply) => {
    const ready = await readiness()
    if (!ready.ok) reply.code(503)
    // Without its backplane a process still stores events and serves polls correctly, so it stays ready.
    return ready
  })

  router.handle('getMetrics', async (_input, reply) => {
    reply.type(metrics.registry.contentType)
    return (await metrics.registry.metrics()) as never
  })
}
