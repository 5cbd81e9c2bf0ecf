import { eventTypes } from '@wardline/contract'
import type { Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import type { EventToStore, Ingest, Once } from '../events/ingest.ts'
import {
  type Anomaly,
  type Baseline,
  bounded,
  learn as learnSample,
  parseSessionMetrics,
  scoreSample,
} from './anomaly.ts'
import { compileLearn, learnStatement, readBaselines } from './queries.ts'

/** Metrics that one instance can have; a hostile agent could invent a name with every report. */
const maxBaselines = 200

export interface Detection {
  /**
   * Stores events in one transaction, in which session metrics are judged and learnt as well. Resolves with the answer
   * that holds for the caller's Idempotency-Key, or the id of the first event.
   */
  store(events: EventToStore[], once?: Once): Promise<string>
}

type Report = EventToStore & { instance_id: string }
const isReport = (event: EventToStore): event is Report =>
  event.event_type === eventTypes.sessionMetrics && event.instance_id !== null

const round = (value: number) => Number(value.toPrecision(6))

function describe(metric: string, value: number, { mean, deviation, z }: Anomaly): string {
  return `${metric} is ${round(value)}, usually ${round(mean)} ± ${round(deviation)} (z = ${z.toFixed(1)})`
}

export function createDetection({ database }: Pick<Deps, 'database'>, ingest: Ingest): Detection {
  const learn = compileLearn(database)
  /** The last report of each instance that is under way: the next one must see what it taught. */
  const underWay = new Map<string, Promise<unknown>>()

  function anomalyEvent(report: EventToStore, metric: string, value: number, anomaly: Anomaly): EventToStore {
    const { mean, deviation, z, samples, severity } = anomaly
    return {
      ...ingest.own({
        severity,
        event_type: eventTypes.anomalyDetected,
        description: describe(metric, value, anomaly),
        metadata: { metric, value, mean, deviation, z, samples },
      }),
      instance_id: report.instance_id,
      session_id: report.session_id,
    }
  }

  /** What a report says against the baselines, which then know what it taught. */
  function judge(report: EventToStore, baselines: Map<string, Baseline>) {
    const anomalies: EventToStore[] = []
    const samples: [string, number][] = []
    for (const [metric, value] of Object.entries(parseSessionMetrics(report.description))) {
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

  async function judgeAll(events: EventToStore[], instanceIds: ReadonlySet<string>) {
    const read = await Promise.all(
      [...instanceIds].map(async (id) => [id, await readBaselines(database.db, id)] as const),
    )
    const baselines = new Map(read)
    const also: Statement[] = []
    const anomalies: EventToStore[] = []
    for (const report of events) {
      const known = isReport(report) ? baselines.get(report.instance_id) : undefined
      if (!known) continue
      const found = judge(report, known)
      anomalies.push(...found.anomalies)
      if (found.samples.length > 0) also.push(learnStatement(learn, report.instance_id!, found.samples))
    }
    return { anomalies, also }
  }

  return {
    store(events, once) {
      const instanceIds = new Set(events.filter(isReport).map((report) => report.instance_id))
      if (instanceIds.size === 0) return ingest.store(events, { once })
      return inTurn(instanceIds, async () => {
        const { anomalies, also } = await judgeAll(events, instanceIds)
        return ingest.store([...events, ...anomalies], { also, once })
      })
    },
  }
}
