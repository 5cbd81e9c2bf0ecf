import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { knownTools } from './event-types.ts'
import { SeverityCounts } from './events.ts'
import { Count, choice, limits } from './fields.ts'
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

export const statusEndpoints = {
  getStatus: define({
    method: 'GET',
    path: '/api/status',
    access: access.readers,
    feature: 'status',
    summary: 'Instances, severity counts of 24 hours, tool calls of one hour',
    query: StatusQuery,
    status: 200,
    reply: FleetStatus,
  }),
}
