import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { knownTools } from './event-types.ts'
import { SeverityCounts } from './events.ts'
import { Count, choice, InstanceId, limits, nullable, Timestamp, Uuid } from './fields.ts'
import { InstanceView } from './instances.ts'
import { Type } from './type.ts'

const StatusQuery = Type.Object({
  omit: Type.Optional(choice(['instances'], 'Leave the list of instances empty: counts alone are cheap')),
})

export const FleetStatus = Type.Object({
  instances: Type.Array(InstanceView, {
    description: `All instances up to ${limits.statusInstances}; of more, ${limits.statusSample}: suspended ones first, then those with the newest heartbeats. GET /api/instances lists all in pages`,
  }),
  instances_omitted: Type.Optional(
    Type.Integer({ minimum: 1, description: 'Number of instances not in the list; absent when it is complete' }),
  ),
  stats: SeverityCounts,
  toolCalls: Type.Object(
    Object.fromEntries(knownTools.map((tool) => [tool, Count])) as Record<(typeof knownTools)[number], typeof Count>,
  ),
})
export type FleetStatus = Static<typeof FleetStatus>

const Problem = Type.Object({
  severity: choice(['critical', 'breach']),
  by_service: Type.Boolean({ description: 'True when the service itself reported the events' }),
  event_type: Type.String({ description: 'Of several types, the one of the newest event' }),
  types: Type.Integer({
    minimum: 1,
    description: `Number of event types: 1, or those of an instance that reports more than ${limits.problemTypes}`,
  }),
  agents: { ...Count, description: 'Number of instances; 0 for events without an instance' },
  instances: Type.Array(InstanceId, {
    description: `Their ids, latest event first; at most ${limits.problemInstances}, and twice as many in the whole answer`,
  }),
  events: Type.Integer({ minimum: 1, description: 'Number of events since first_at' }),
  first_at: { ...Timestamp, description: 'Of the first event of 24 hours, to the hour' },
  last_at: Timestamp,
  last_seq: Type.Integer({ minimum: 1, description: 'The newest event' }),
  source: nullable(Type.String({ description: 'Of the newest event; null if it was deleted' })),
  description: nullable(Type.String({ description: 'Of the newest event; null if it was deleted' })),
  open_alert: nullable({ ...Uuid, description: 'The newest open alert, where the problem is of one instance or none' }),
})
export type Problem = Static<typeof Problem>

const ProblemList = Type.Object({
  problems: Type.Array(Problem, {
    description: `Most severe first, then those of the service, then the newest; at most ${limits.problems}`,
  }),
  omitted: { ...Count, description: 'Number of problems that are not listed' },
  complete: Type.Boolean({
    description: 'False when there are so many instances and types that only the latest were counted',
  }),
})
export type ProblemList = Static<typeof ProblemList>

export const statusEndpoints = {
  listProblems: define({
    method: 'GET',
    path: '/api/problems',
    access: access.readers,
    teams: 'agents',
    feature: 'status',
    summary:
      'List critical events and breaches of 24 hours by type. More than three instances with the same type are one problem. Those whose alerts were acknowledged or resolved after the last event are left out',
    status: 200,
    reply: ProblemList,
    failures: { 503: 'Too many queued searches and lists; retry after Retry-After seconds' },
  }),
  getStatus: define({
    method: 'GET',
    path: '/api/status',
    access: access.readers,
    teams: 'agents',
    feature: 'status',
    summary: 'Instances, severity counts of 24 hours, tool calls of one hour',
    query: StatusQuery,
    status: 200,
    reply: FleetStatus,
  }),
}
