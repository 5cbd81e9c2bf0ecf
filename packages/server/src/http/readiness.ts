import type { Readiness as ReadinessView } from '@wardline/contract'
import { probe } from '../db/runs.ts'
import type { Deps } from '../deps.ts'

/** Minimum interval between database probes, even if readiness is queried more often. */
const probeEveryMs = 1_000

export type Readiness = () => Promise<ReadinessView>

export function createReadiness({ clock, timekeeping, database, bus }: Deps): Readiness {
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
  return async () => {
    const ok = await isReady()
    const { offsetMs } = timekeeping
    return { ok, database: ok ? 'ok' : 'unavailable', backplane: bus.state, clock_offset_ms: offsetMs }
  }
}
