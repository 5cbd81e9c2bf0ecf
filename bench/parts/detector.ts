import { dayMs, minuteMs } from '../../packages/server/src/clock.ts'
import type { Baseline } from '../../packages/server/src/features/detection/baseline.ts'
import { decodeBaseline, encodeBaseline } from '../../packages/server/src/features/detection/baseline-state.ts'
import { judge } from '../../packages/server/src/features/detection/judge-sample.ts'
import { kinds, randomOf } from '../../packages/server/src/features/detection/simulation.ts'
import type { Figure } from '../report.ts'
import { median } from '../statistics.ts'

const roundCount = 5
const reportsARound = 10_000
const everyMs = 5 * minuteMs
/** Long enough that the baselines know the working day. */
const learningMs = 25 * dayMs
const firstAt = Date.UTC(2026, 0, 5)
const seed = 1

/** Reports per second and core, of seven metrics with different traffic, including decoding and encoding the state. */
export async function measureDetector(): Promise<Figure[]> {
  const metrics = kinds.map((kind, index) => {
    const traffic = kind.start(randomOf(seed + index), 1)
    let baseline: Baseline | null = null
    for (let at = firstAt; at < firstAt + learningMs; at += everyMs) {
      baseline = judge(baseline, { value: traffic(at), at }, null, () => 'episode').baseline
    }
    return { traffic, stored: encodeBaseline(baseline!) }
  })
  let at = firstAt + learningMs
  const rounds: number[] = []
  for (let round = 0; round < roundCount; round++) {
    const before = process.cpuUsage()
    for (let report = 0; report < reportsARound; report++) {
      for (const metric of metrics) {
        const sample = { value: metric.traffic(at), at }
        metric.stored = encodeBaseline(judge(decodeBaseline(metric.stored), sample, null, () => 'episode').baseline)
      }
      at += everyMs
    }
    const { user, system } = process.cpuUsage(before)
    rounds.push((reportsARound / (user + system)) * 1_000_000)
  }
  const none = { sides: [], notes: [], faults: [] }
  return [{ ...none, name: 'reports of seven metrics judged', value: median(rounds), unit: '/s', min: 10_000, rounds }]
}
