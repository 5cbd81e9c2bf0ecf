import type { BaselineDetail, BaselineList, BaselineView, EpisodeView, ReplayedAnomaly } from '@wardline/contract'
import { limits } from '@wardline/contract'
import { dayMs, isoTime, isoTimeOrNull } from '../../clock.ts'
import type { Statement } from '../../db/database.ts'
import { inPortions } from '../../db/portions.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import type { EventToStore, Ingest } from '../events/ingest.ts'
import { readMetricReports } from '../events/metric-reports.ts'
import { readTraits } from '../instances/traits.ts'
import { endedEvent } from './anomaly-events.ts'
import { type Baseline, deviationOf, isMature } from './baseline.ts'
import { decodeBaseline } from './baseline-state.ts'
import { acceptLevel, endSilently } from './episodes.ts'
import type { FleetBaselines } from './fleet-baselines.ts'
import { againWhileOutdated, isBaselineOutdated, writeOf } from './judge.ts'
import { alarmLevel, judge } from './judge-sample.ts'
import {
  type BaselineRow,
  compileWrites,
  deleteEpisodesBefore,
  deleteStatement,
  type EpisodeRow,
  endStatement,
  findOldBaselines,
  readBaselines,
  readEpisodes,
  readInstanceBaselines,
  readSilent,
} from './queries.ts'
import { isQuietTime } from './quiet-times.ts'
import { quantile } from './summary.ts'

interface BaselineTools {
  ingest: Pick<Ingest, 'store'>
  fleetBaselines: Pick<FleetBaselines, 'find'>
  protectionAlerts: ProtectionAlerts
}

export type Baselines = ReturnType<typeof createBaselines>

/** Episodes ended per sweep; the next sweep continues. */
const sweepRows = 200
const usualOf = (summary: Baseline['main']) => {
  return { low: quantile(summary, 0.05), high: quantile(summary, 0.95) }
}

const episodeView = (row: EpisodeRow): EpisodeView => ({
  id: row.id,
  metric: row.metric,
  severity: row.severity,
  basis: row.basis,
  began_at: isoTime(row.begun_at),
  ended_at: isoTimeOrNull(row.ended_at),
  peak: row.peak,
  outcome: row.outcome,
})

const unknownBaseline = (instanceId: string, metric: string) =>
  new AppError(
    'not_found',
    `No baseline of ${JSON.stringify(metric)} for ${instanceId}; \`wardline baselines show ${instanceId}\` lists them.`,
  )

export function createBaselines(
  { database, clock }: Pick<Deps, 'database' | 'clock'>,
  { ingest, fleetBaselines, protectionAlerts }: BaselineTools,
) {
  const { db } = database
  const write = compileWrites(database)

  async function findRow(instanceId: string, metric: string): Promise<BaselineRow> {
    const [row] = await readBaselines(db, instanceId, [metric])
    if (!row) throw unknownBaseline(instanceId, metric)
    return row
  }

  async function viewer(instanceId: string) {
    const now = clock.now()
    const traits = (await readTraits(db, [instanceId])).get(instanceId)
    return ({ metric, state, updated_at }: BaselineRow): BaselineView => {
      const baseline = decodeBaseline(state)
      const mature = baseline !== null && isMature(baseline, now)
      const borrowed = mature ? null : fleetBaselines.find(metric, traits)
      const quiet = mature && isQuietTime(baseline.times, baseline.main, baseline.quiet, now)
      const summary = mature ? (quiet ? baseline.quiet : baseline.main) : borrowed?.summary
      return {
        metric,
        basis: mature ? 'own' : (borrowed?.basis ?? 'none'),
        samples: baseline?.samples ?? 0,
        since: isoTimeOrNull(baseline?.since ?? null),
        updated_at: isoTime(updated_at),
        mean: baseline?.mean ?? 0,
        deviation: baseline ? deviationOf(baseline) : 0,
        highest: baseline?.highest ?? 0,
        usual: summary ? usualOf(summary) : null,
        alarm_above: summary ? alarmLevel(summary) : null,
        quiet_time: quiet,
        episode: baseline?.episode?.id ?? null,
      }
    }
  }

  /** Stores a change by an operator, with the end of the episode if there was one. */
  async function store(events: EventToStore[], statements: Statement[]): Promise<void> {
    if (events.length > 0) await ingest.store(events, { also: statements })
    else await database.batch(statements)
  }

  function change(
    instanceId: string,
    metric: string,
    actor: Actor,
    {
      action,
      outcome,
      to,
    }: { action: string; outcome: 'accepted' | 'reset'; to(baseline: Baseline | null): Baseline | null },
  ): Promise<void> {
    return againWhileOutdated(async () => {
      const now = clock.now()
      const { version, state } = await findRow(instanceId, metric)
      const baseline = decodeBaseline(state)
      const next = to(baseline)
      const episode = baseline?.episode
      const subject = { instanceId, sessionId: null, metric, value: episode?.peak ?? 0, now }
      const before = baseline ? { usual: usualOf(baseline.main), samples: baseline.samples } : null
      const after = next ? { usual: usualOf(next.main), samples: next.samples } : null
      const entry = { action, target: `${instanceId} ${metric}`, before, after }
      const row = next
        ? writeOf(instanceId, metric, version, next)
        : ([instanceId, metric, version + 1, '', now, null] as const)
      await store(episode ? [endedEvent(subject, episode, outcome, now)] : [], [
        write([[...row]]),
        ...(episode ? [endStatement(db, episode.id, { peak: episode.peak, ended_at: now, outcome })] : []),
        ...protectionAlerts.statements(actor, entry, now),
        ...auditStatements(database, actor, entry, now),
      ])
    })
  }

  return {
    /** Returns the baselines of an instance with their last episodes. Throws AppError `not_found`. */
    async list(instanceId: string): Promise<BaselineList> {
      const [rows, episodes, view] = await Promise.all([
        readInstanceBaselines(db, instanceId),
        readEpisodes(db, instanceId, undefined, limits.listedEpisodes),
        viewer(instanceId),
      ])
      return { id: instanceId, baselines: rows.map(view), episodes: episodes.map(episodeView) }
    },

    /** Returns one baseline with its newest samples. `caller`: identifies the reader in the scan lane. */
    async view(instanceId: string, metric: string, caller: string): Promise<BaselineDetail> {
      const row = await findRow(instanceId, metric)
      const view = await viewer(instanceId)
      const [episodes, reports] = await Promise.all([
        readEpisodes(db, instanceId, metric, limits.listedEpisodes),
        database.scan(caller, (scanned) => readMetricReports(scanned, instanceId, limits.listedSamples)),
      ])
      const samples = reports.flatMap(({ at, metrics }) =>
        Object.hasOwn(metrics, metric) ? [{ at, value: metrics[metric]! }] : [],
      )
      return {
        id: instanceId,
        baseline: view(row),
        episodes: episodes.map(episodeView),
        samples: samples.map(({ at, value }) => ({ at: isoTime(at), value })),
        replayed: replay(samples),
      }
    },

    /** Accepts the level of the open episode as usual. Throws AppError `not_found` or `invalid`. */
    accept(instanceId: string, metric: string, actor: Actor): Promise<void> {
      return change(instanceId, metric, actor, {
        action: 'baseline.accept',
        outcome: 'accepted',
        to(baseline) {
          if (baseline?.episode) return { ...acceptLevel(baseline), accepted: { at: 0, level: 0 } }
          throw new AppError('invalid', `${JSON.stringify(metric)} of ${instanceId} has no open anomaly to accept.`)
        },
      })
    },

    /** Resets the baseline. Throws AppError `not_found`. */
    reset(instanceId: string, metric: string, actor: Actor): Promise<void> {
      return change(instanceId, metric, actor, { action: 'baseline.reset', outcome: 'reset', to: () => null })
    },

    /** Periodic job: ends the episodes of agents that stopped reporting. */
    async endSilent(): Promise<void> {
      const now = clock.now()
      for (const { instance_id: instanceId, metric, version, state } of await readSilent(db, now, sweepRows)) {
        const baseline = decodeBaseline(state)
        if (!baseline?.episode) continue
        const { episode } = baseline
        const { id, peak, lastAt } = episode
        const event = endedEvent({ instanceId, sessionId: null, metric, value: peak, now }, episode, 'silent', lastAt)
        const also = [
          write([writeOf(instanceId, metric, version, endSilently(baseline))]),
          endStatement(db, id, { peak, ended_at: lastAt, outcome: 'silent' }),
        ]
        await ingest.store([event], { also }).catch((fault) => {
          // Another process was faster, or the agent has reported again.
          if (!isBaselineOutdated(fault)) throw fault
        })
      }
    },
  }
}

/** Replays samples on a new baseline; returns what it would have reported. */
function replay(samples: readonly { at: number; value: number }[]): ReplayedAnomaly[] {
  const found: ReplayedAnomaly[] = []
  let baseline: Baseline | null = null
  for (const sample of samples) {
    const judged = judge(baseline, sample, null, () => '')
    baseline = judged.baseline
    for (const finding of judged.findings) {
      if (finding.kind === 'ended') continue
      const severity = finding.kind === 'level' ? 'warning' : finding.severity
      found.push({ at: isoTime(sample.at), value: sample.value, severity, kind: finding.kind })
    }
  }
  return found.slice(-limits.listedEpisodes)
}

/** Periodic job: deletes baselines of agents that are gone, and old episodes. */
export async function forgetBaselines(
  { config, database, clock }: Pick<Deps, 'config' | 'database' | 'clock'>,
  stopping?: AbortSignal,
): Promise<void> {
  const cutoff = clock.now() - config.retentionDays * dayMs
  const { db } = database
  // No index finds them, and the writer must not look through them all.
  await inPortions(async (limit) => {
    const rows = await findOldBaselines(db, cutoff, limit)
    if (rows.length > 0)
      await database.batch(rows.map(({ instance_id, metric }) => deleteStatement(db, instance_id, metric, cutoff)))
    return rows.length
  }, stopping)
  await deleteEpisodesBefore(db, cutoff, stopping)
}
