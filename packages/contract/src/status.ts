import { type Static, Type } from 'typebox'
import { knownTools, SeverityCounts } from './events.ts'
import { Count } from './fields.ts'
import { InstanceView } from './instances.ts'

export const FleetStatus = Type.Object({
  instances: Type.Array(InstanceView),
  stats: SeverityCounts,
  toolCalls: Type.Object(
    Object.fromEntries(knownTools.map((tool) => [tool, Count])) as Record<(typeof knownTools)[number], typeof Count>,
  ),
})
export type FleetStatus = Static<typeof FleetStatus>
