import { eventTypes } from '@wardline/contract'
import type { Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import type { Findings, Judge } from '../events/events.ts'
import type { EventToStore } from '../events/ingest.ts'
import { ownEventToStore } from '../events/new-event.ts'
import type { SessionMetrics } from '../events/session-metrics.ts'
import { type Anomaly, type Baseline, bounded, learn as learnSample, scoreSample } from './anomaly.ts'
import { compileLearn, learnStatement, readBaselines } from './queries.ts'

/** Metrics that one instance can have; a hostile agent could invent a name with every report. */
const maxBaselines = 200

type Report = EventToStore & { instance_id: string; metrics: SessionMetrics }
const isReport = (event: EventToStore): event is Report => event.metrics !== undefined && event.instance_id !== null

const round = (value: number) => Number(value.toPrecision(6))

function describe(metric: string, value: number, { mean, deviation, z }: Anomaly): string {
  return `${metric} is ${round(value)}, usually ${round(mean)} ± ${round(deviation)} (z = ${z.toFixed(1)})`
}

/** Judges the session metrics of each instance by what it reported before, and learns what was usual. */
export function createJudge({ database, clock }: Pick<Deps, 'database' | 'clock'>): Judge {
  const learn = compileLearn(database)
  /** The last report of each instance that is under way: the next one must see what it taught. */
  const underWay = new Map<string, Promise<unknown>>()

  function anomalyEvent(report: Report, metric: string, value: number, anomaly: Anomaly): EventToStore {
    const { mean, deviation, z, samples, severity } = anomaly
    return {
      ...ownEventToStore(
        {
          severity,
          event_type: eventTypes.anomalyDetected,
          description: describe(metric, value, anomaly),
          metadata: { metric, value, mean, deviation, z, samples },
        },
        clock.now(),
      ),
      instance_id: report.instance_id,
      session_id: report.session_id,
    }
  }

  /** What a report says against the baselines, which then know what it taught. */
  function judge(report: Report, baselines: Map<string, Baseline>) {
    const anomalies: EventToStore[] = []
    const samples: [string, number][] = []
    for (const [metric, value] of Object.entries(report.metrics)) {
      const baseline = baselines.get(metric)
      const anomaly = scoreSample(baseline ?? null, value)
      if (anomaly) anomalies.push(anomalyEvent(report, metric, value, anomaly))
      else if (baseline || baselines.size < maxBaselines) {
        samples.push([metric, bounded(value)])
        baselines.set(metric, learnSample(baseline ?? null, value))
      }
    }
    return { anomalies, samples }
  }

  /** One after the other for each instance: a report must see what the one before it taught. */
  async function inTurn<Result>(instanceIds: ReadonlySet<string>, work: () => Promise<Result>): Promise<Result> {
    const before = [...instanceIds].map((id) => underWay.get(id))
    const result = Promise.allSettled(before).then(work)
    for (const id of instanceIds) underWay.set(id, result)
    try {
      return await result
    } finally {
      for (const id of instanceIds) if (underWay.get(id) === result) underWay.delete(id)
    }
  }

  async function judgeAll(reports: readonly Report[], instanceIds: ReadonlySet<string>): Promise<Findings> {
    const read = [...instanceIds].map(async (id) => [id, await readBaselines(database.db, id)] as const)
    const baselines = new Map(await Promise.all(read))
    const events: EventToStore[] = []
    const statements: Statement[] = []
    for (const report of reports) {
      const { anomalies, samples } = judge(report, baselines.get(report.instance_id)!)
      events.push(...anomalies)
      if (samples.length > 0) statements.push(learnStatement(learn, report.instance_id, samples))
    }
    return { events, statements }
  }

  return (events) => {
    if (!events.some(isReport)) return undefined
    const reports = events.filter(isReport)
    const instanceIds = new Set(reports.map(({ instance_id }) => instance_id))
    return (store) => inTurn(instanceIds, async () => store(await judgeAll(reports, instanceIds)))
  }
}
