import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { Count, choice, InstanceId, InstanceParams, limits, nullable, Ok, Timestamp, Uuid } from './fields.ts'
import { Type } from './type.ts'

/** A baseline is used alone after so many samples and so long: before, it does not cover all hours of a day. */
export const baselineLearning = {
  samples: 100,
  ms: 86_400_000,
  /** Minimum samples for a judgement without other agents to compare with. */
  grossSamples: 10,
} as const

/** The baseline that samples of a metric are compared with. */
const baselineBases = ['own', 'type', 'tag', 'fleet', 'none'] as const
const episodeOutcomes = ['over', 'accepted', 'reset', 'silent', 'level'] as const

const Basis = choice(
  baselineBases,
  'What samples are judged by: the samples of the instance; those of agents with the same agent_type, a common tag, or all, until the instance has reported enough; none of these, so that only a gross runaway is reported',
)
const Range = Type.Object(
  { low: Type.Number(), high: Type.Number() },
  { description: '5th to 95th percentile of the samples that it is judged by' },
)

export const EpisodeView = Type.Object({
  id: Uuid,
  metric: Type.String(),
  severity: choice(['warning', 'critical']),
  basis: Basis,
  began_at: Timestamp,
  ended_at: nullable(Timestamp),
  peak: Type.Number({ description: 'The highest sample' }),
  outcome: nullable(
    choice(
      episodeOutcomes,
      'over: as usual again; accepted: a new level, learnt or accepted by an operator; reset; silent: no more reports; level: what is usual rose without an episode; null while it is open',
    ),
  ),
})
export type EpisodeView = Static<typeof EpisodeView>

export const BaselineView = Type.Object({
  metric: Type.String(),
  basis: Basis,
  samples: {
    ...Count,
    description: `Samples learnt; ${baselineLearning.samples} make it its own basis, a day after since`,
  },
  since: nullable({ ...Timestamp, description: 'The first sample' }),
  updated_at: Timestamp,
  mean: Type.Number(),
  deviation: Type.Number(),
  highest: Type.Number({ description: 'The highest sample learnt in 30 days' }),
  usual: nullable(Range),
  alarm_above: nullable(Type.Number({ description: 'Two samples in a row above this are reported' })),
  quiet_time: Type.Boolean({
    description: 'Whether it is judged by what is usual at this time of the week, in which it is always low',
  }),
  episode: nullable({ ...Uuid, description: 'The open episode' }),
})
export type BaselineView = Static<typeof BaselineView>

export const BaselineList = Type.Object({
  id: InstanceId,
  baselines: Type.Array(BaselineView),
  episodes: Type.Array(EpisodeView, {
    maxItems: limits.listedEpisodes,
    description: 'The newest of all metrics, newest first',
  }),
})
export type BaselineList = Static<typeof BaselineList>

const ReplayedAnomaly = Type.Object({
  at: Timestamp,
  value: Type.Number(),
  severity: choice(['warning', 'critical']),
  kind: choice(['began', 'rose', 'level']),
})
export type ReplayedAnomaly = Static<typeof ReplayedAnomaly>

export const BaselineDetail = Type.Object({
  id: InstanceId,
  baseline: BaselineView,
  episodes: Type.Array(EpisodeView, { maxItems: limits.listedEpisodes, description: 'Newest first' }),
  samples: Type.Array(Type.Object({ at: Timestamp, value: Type.Number() }), {
    maxItems: limits.listedSamples,
    description: 'The newest samples that are stored as events, oldest first',
  }),
  replayed: Type.Array(ReplayedAnomaly, {
    maxItems: limits.listedEpisodes,
    description: 'What a detector that had seen only these samples would have reported',
  }),
})
export type BaselineDetail = Static<typeof BaselineDetail>

const MetricParams = Type.Object({
  ...InstanceParams.properties,
  metric: Type.String({ minLength: 1, maxLength: 100, description: 'Name of the metric' }),
})

export const baselineEndpoints = {
  listBaselines: define({
    method: 'GET',
    path: '/api/instances/:instanceId/baselines',
    access: access.readers,
    teams: 'agent',
    feature: 'detection',
    summary: 'List what is usual for each metric of an instance, with its last anomalies',
    params: InstanceParams,
    status: 200,
    reply: BaselineList,
  }),
  getBaseline: define({
    method: 'GET',
    path: '/api/instances/:instanceId/baselines/:metric',
    access: access.readers,
    teams: 'agent',
    feature: 'detection',
    summary: 'Get what is usual for a metric of an instance, with its anomalies and newest samples',
    params: MetricParams,
    status: 200,
    reply: BaselineDetail,
    failures: { 404: 'The instance reported no such metric' },
  }),
  acceptBaseline: define({
    method: 'POST',
    path: '/api/instances/:instanceId/baselines/:metric/accept',
    access: access.operators,
    teams: 'agent',
    feature: 'detection',
    summary: 'Accept the level of the open anomaly of a metric as usual, which ends the anomaly',
    params: MetricParams,
    status: 200,
    reply: Ok,
    failures: { 404: 'The instance reported no such metric' },
  }),
  resetBaseline: define({
    method: 'POST',
    path: '/api/instances/:instanceId/baselines/:metric/reset',
    access: access.operators,
    teams: 'agent',
    feature: 'detection',
    summary: 'Forget what is usual for a metric of an instance, and learn it again',
    params: MetricParams,
    status: 200,
    reply: Ok,
    failures: { 404: 'The instance reported no such metric' },
  }),
}
