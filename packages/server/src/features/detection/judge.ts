import type { Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { AppError, DatabaseError } from '../../errors.ts'
import { uuidV7 } from '../../ids.ts'
import type { Findings, Judge } from '../events/events.ts'
import type { EventToStore } from '../events/ingest.ts'
import type { SessionMetrics } from '../events/session-metrics.ts'
import { readTraits, type Traits } from '../instances/traits.ts'
import { findingEvent, type Subject } from './anomaly-events.ts'
import { type Baseline, type Finding, isMature } from './baseline.ts'
import { decodeBaseline, encodeBaseline } from './baseline-state.ts'
import { silentMs } from './episodes.ts'
import type { FleetBaselines } from './fleet-baselines.ts'
import { judge as judgeSample } from './judge-sample.ts'
import {
  type BaselineWrite,
  compileWrites,
  countBaselines,
  currentConstraint,
  endStatement,
  episodeStatement,
  readBaselines,
  trimStatement,
} from './queries.ts'

/** Maximum metrics per instance: a hostile agent could invent a name with every report. */
const maxBaselines = 200
/** Maximum attempts; each one fails only if another process committed a change of the same instance. */
const maxAttempts = 20
const retryAfterSeconds = 1

type Report = EventToStore & { instance_id: string; metrics: SessionMetrics }
const isReport = (event: EventToStore): event is Report => event.metrics !== undefined && event.instance_id !== null

/** A baseline as read; version 0 if there is none. */
interface Known {
  version: number
  baseline: Baseline | null
}

export const writeOf = (instanceId: string, metric: string, version: number, baseline: Baseline): BaselineWrite => [
  instanceId,
  metric,
  version + 1,
  encodeBaseline(baseline),
  baseline.at,
  baseline.episode ? baseline.episode.lastAt + silentMs : null,
]

/** Judges the session metrics of each instance by its earlier reports, and learns from them. */
export function createJudge(
  { database, clock }: Pick<Deps, 'database' | 'clock'>,
  { fleetBaselines }: { fleetBaselines: Pick<FleetBaselines, 'find'> },
): Judge {
  const { db } = database
  const write = compileWrites(database)
  /** Last pending report per instance: the next one must see what was learnt from it. */
  const underWay = new Map<string, Promise<unknown>>()

  /** Traits of instances, cached for their reports. */
  async function readInstance(instanceId: string, metrics: ReadonlySet<string>, now: number) {
    const rows = await readBaselines(db, instanceId, [...metrics])
    const known = new Map<string, Known>(
      rows.map(({ metric, version, state }) => [metric, { version, baseline: decodeBaseline(state) }]),
    )
    const hasNew = known.size < metrics.size
    const room = hasNew ? maxBaselines - (await countBaselines(db, instanceId)) : 0
    const isYoung = hasNew || [...known.values()].some(({ baseline }) => !baseline || !isMature(baseline, now))
    const traits = isYoung ? (await readTraits(db, [instanceId])).get(instanceId) : undefined
    return { known, room, traits }
  }

  /** Adds the statements of a finding to those of the report. */
  function recordFinding(subject: Subject, finding: Finding, id: string): Statement[] {
    const { instanceId: instance_id, metric } = subject
    if (finding.kind === 'ended') {
      const { episode, outcome, endedAt } = finding
      return [endStatement(db, episode.id, { peak: episode.peak, ended_at: endedAt, outcome })]
    }
    const { basis } = finding.grounds
    const subjectOf = { instance_id, metric, basis }
    if (finding.kind === 'level') {
      const times = { begun_at: subject.now, ended_at: subject.now }
      const level = { ...subjectOf, ...times, id, severity: 'warning', peak: subject.value, outcome: 'level' } as const
      return [episodeStatement(db, level), trimStatement(db, instance_id, metric)]
    }
    const { id: episodeId, severity, peak, begunAt } = finding.episode
    const row = { ...subjectOf, id: episodeId, severity, peak, begun_at: begunAt, ended_at: null, outcome: null }
    return [episodeStatement(db, row), ...(finding.kind === 'began' ? [trimStatement(db, instance_id, metric)] : [])]
  }

  /** Judges one metric of a report; adds findings to `found`. */
  function judgeMetric(
    subject: Subject,
    before: Baseline | null,
    traits: Traits | undefined,
    found: Findings,
  ): Baseline {
    const { metric, value, now } = subject
    const isYoung = !before || !isMature(before, now)
    const borrowed = isYoung ? fleetBaselines.find(metric, traits) : null
    const { baseline, findings } = judgeSample(before, { value, at: now }, borrowed, () => uuidV7(now))
    for (const finding of findings) {
      const id = uuidV7(now)
      found.events.push(findingEvent(subject, finding, id))
      found.statements.push(...recordFinding(subject, finding, id))
    }
    return baseline
  }

  async function judgeInstance(instanceId: string, reports: readonly Report[], now: number, found: Findings) {
    const metrics = new Set(reports.flatMap((report) => Object.keys(report.metrics)))
    if (metrics.size === 0) return []
    const { known, room, traits } = await readInstance(instanceId, metrics, now)
    const judged = new Map<string, Baseline>()
    let left = room
    for (const report of reports) {
      for (const [metric, value] of Object.entries(report.metrics)) {
        const isNew = !known.has(metric) && !judged.has(metric)
        if (isNew && left-- <= 0) continue
        const subject = { instanceId, sessionId: report.session_id, metric, value, now }
        const before = judged.get(metric) ?? known.get(metric)?.baseline ?? null
        judged.set(metric, judgeMetric(subject, before, traits, found))
      }
    }
    return [...judged].map(([metric, baseline]) =>
      writeOf(instanceId, metric, known.get(metric)?.version ?? 0, baseline),
    )
  }

  async function judgeAll(byInstance: ReadonlyMap<string, Report[]>): Promise<Findings> {
    const now = clock.now()
    const found: Findings = { events: [], statements: [] }
    const work = [...byInstance].map(([id, reports]) => judgeInstance(id, reports, now, found))
    const writes = (await Promise.all(work)).flat()
    if (writes.length > 0) found.statements.unshift(write(writes))
    return found
  }

  /** Runs in sequence per instance, because a report must see what was learnt from the previous one. */
  async function inTurn<Result>(instanceIds: Iterable<string>, work: () => Promise<Result>): Promise<Result> {
    const ids = [...instanceIds]
    const before = ids.map((id) => underWay.get(id))
    const result = Promise.allSettled(before).then(work)
    for (const id of ids) underWay.set(id, result)
    try {
      return await result
    } finally {
      for (const id of ids) if (underWay.get(id) === result) underWay.delete(id)
    }
  }

  return (events) => {
    if (!events.some(isReport)) return undefined
    const byInstance = new Map<string, Report[]>()
    for (const report of events.filter(isReport)) {
      byInstance.set(report.instance_id, [...(byInstance.get(report.instance_id) ?? []), report])
    }
    return (store) => inTurn(byInstance.keys(), () => againWhileOutdated(async () => store(await judgeAll(byInstance))))
  }
}

/** Whether another process changed a baseline since it was read. */
export const isBaselineOutdated = (fault: unknown): boolean =>
  fault instanceof DatabaseError && fault.message.includes(currentConstraint)

/**
 * Retries if another process changed a baseline since it was read, in which case the database refused the whole
 * transaction. Throws AppError `overloaded` after the maximum number of attempts.
 */
export async function againWhileOutdated<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (fault) {
      if (!isBaselineOutdated(fault)) throw fault
      if (attempt === maxAttempts) {
        throw new AppError(
          'overloaded',
          'Reports of this instance arrive at too many processes at once; retry.',
          retryAfterSeconds,
        )
      }
    }
  }
}
