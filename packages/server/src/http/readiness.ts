import type { Readiness as ReadinessView } from '@wardline/contract'
import { probe } from '../db/runs.ts'
import type { Deps } from '../deps.ts'
import { SharedRun } from '../shared-run.ts'

/** Minimum interval between database probes, even if readiness is queried more often. */
const probeEveryMs = 1_000

export type Readiness = () => Promise<ReadinessView>

export function createReadiness({ clock, timekeeping, database, bus }: Deps): Readiness {
  const answers = () =>
    probe(database, clock.now()).then(
      () => true,
      () => false,
    )
  const readiness = new SharedRun(answers, { clock, keptMs: probeEveryMs })
  return async () => {
    const ok = await readiness.get()
    const { offsetMs } = timekeeping
    return { ok, database: ok ? 'ok' : 'unavailable', backplane: bus.state, clock_offset_ms: offsetMs }
  }
}
