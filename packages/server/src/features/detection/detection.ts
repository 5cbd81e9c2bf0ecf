import { eventTypes } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import type { EventToStore, Ingest, StoreOptions } from '../events/ingest.ts'
import { type Anomaly, type Baseline, bounded, parseSessionMetrics, scoreSample } from './anomaly.ts'
import { compileLearn, learnStatement, readBaselines } from './queries.ts'

/** Metrics that one instance can have; a hostile agent could invent a name with every report. */
const maxBaselines = 200

export interface Detection {
  /** Stores an event; session metrics are judged and learnt in the same transaction. Resolves with the id that holds. */
  store(event: EventToStore, once?: StoreOptions['once']): Promise<string>
  /** Stores many events. */
  storeAll(events: EventToStore[]): Promise<void>
}

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

  function judge(report: EventToStore, baselines: Map<string, Baseline>) {
    const anomalies: EventToStore[] = []
    const samples: [string, number][] = []
    for (const [metric, value] of Object.entries(parseSessionMetrics(report.description))) {
      const baseline = baselines.get(metric)
      const anomaly = scoreSample(baseline ?? null, value)
      if (anomaly) anomalies.push(anomalyEvent(report, metric, value, anomaly))
      else if (baseline || baselines.size + samples.length < maxBaselines) samples.push([metric, bounded(value)])
    }
    return { anomalies, samples }
  }

  async function storeMetrics(report: EventToStore, instanceId: string, once: StoreOptions['once']): Promise<string> {
    const { anomalies, samples } = judge(report, await readBaselines(database.db, instanceId))
    const also = samples.length > 0 ? [learnStatement(learn, instanceId, samples)] : []
    return ingest.store([report, ...anomalies], { also, once })
  }

  function store(event: EventToStore, once?: StoreOptions['once']): Promise<string> {
    const instanceId = event.instance_id
    if (event.event_type !== eventTypes.sessionMetrics || instanceId === null) return ingest.store([event], { once })
    const before = underWay.get(instanceId) ?? Promise.resolve()
    const result = before.catch(() => {}).then(() => storeMetrics(event, instanceId, once))
    underWay.set(instanceId, result)
    const forget = () => {
      if (underWay.get(instanceId) === result) underWay.delete(instanceId)
    }
    result.then(forget, forget)
    return result
  }

  return {
    store,
    async storeAll(events) {
      const metrics = events.filter((event) => event.event_type === eventTypes.sessionMetrics)
      const others = events.filter((event) => event.event_type !== eventTypes.sessionMetrics)
      const stored: Promise<unknown>[] = metrics.map((event) => store(event))
      if (others.length > 0) stored.push(ingest.store(others))
      await Promise.all(stored)
    },
  }
}
