import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { InstanceId, limits, nullable } from './fields.ts'
import { InstanceQuery } from './instances.ts'
import { Type } from './type.ts'

const { server, parent, after } = InstanceQuery.properties
const FleetIdsQuery = Type.Object({ server, parent, after })
export type FleetIdsQuery = Static<typeof FleetIdsQuery>

const FleetIds = Type.Object({
  ids: Type.Array(InstanceId),
  next: nullable(Type.String({ description: 'Pass it as `after` for the next page; null on the last page' })),
})
export type FleetIds = Static<typeof FleetIds>

export const fleetIdEndpoints = {
  listFleetIds: define({
    method: 'GET',
    path: '/api/fleet/ids',
    access: access.readers,
    teams: 'agents',
    feature: 'instances',
    summary: `List the ids of matching instances, in pages of ${limits.fleetPage}: what dashboards filter the fleet by`,
    query: FleetIdsQuery,
    status: 200,
    reply: FleetIds,
  }),
}
