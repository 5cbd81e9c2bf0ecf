import { probe } from '../db/runs.ts'
import type { Deps } from '../deps.ts'
import type { Router } from './route.ts'

/** The database is asked at most this often, however often readiness is. */
const probeEveryMs = 1_000

/** What an orchestrator and a monitoring system ask: alive, ready, metrics. */
export function mountOperations(router: Router, { clock, timekeeping, database, bus, metrics }: Deps): void {
  // Liveness must not depend on the database: a restart does not repair a disk.
  router.handle('getHealth', () => ({ ok: true }))

  let last = { at: -Infinity, result: Promise.resolve(false) }
  function isReady(): Promise<boolean> {
    if (clock.monotonic() - last.at < probeEveryMs) return last.result
    const result = probe(database, clock.now()).then(
      () => true,
      () => false,
    )
    last = { at: clock.monotonic(), result }
    return result
  }

  router.handle('getReadiness', async (_input, reply) => {
    const ok = await isReady()
    if (!ok) reply.code(503)
    // Without its backplane a process still stores events and answers polls correctly: removing it would only do harm.
    const { offsetMs } = timekeeping
    return { ok, database: ok ? 'ok' : 'unavailable', backplane: bus.state, clock_offset_ms: offsetMs }
  })

  router.handle('getMetrics', async (_input, reply) => {
    reply.type(metrics.registry.contentType)
    return (await metrics.registry.metrics()) as never
  })
}
