import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { Count, choice, Digits, InstanceId, limits, nullable, Pattern, Timestamp } from './fields.ts'
import { InstanceQuery, SharedFleetInstance } from './instances.ts'
import { type CurrentSuspension, suspensionStates, workingStates } from './suspensions.ts'
import { Type } from './type.ts'

export const fleetStatuses = ['active', 'suspended', 'unconfirmed', 'offline', 'asked'] as const
export type FleetStatusFilter = (typeof fleetStatuses)[number]
export const fleetSorts = ['id', 'status', 'version', 'fails', 'control', 'heartbeat'] as const
export type FleetSort = (typeof fleetSorts)[number]
/** Groups by all tags of an agent. */
export const byAllTags = 'tags'

const { witness, server, parent, ids } = InstanceQuery.properties
const words = Type.Optional(
  Type.String({
    maxLength: limits.fleetWords,
    description: `Every word must be in the id, name, reason of the suspension, version or a tag; at most ${limits.fleetFilterWords} different ones`,
  }),
)
const filters = { q: words, witness, server, parent }
const group = Type.String({ maxLength: limits.tag, description: '`tags` = all tags, else what precedes their colon' })

const FleetQuery = Type.Object({
  ...filters,
  status: Type.Optional(
    choice(
      fleetStatuses,
      'unconfirmed = suspended agents that may still be working, asked = those that a suspension can only ask to stop',
    ),
  ),
  ids,
  from: Type.Optional({ ...InstanceId, description: 'Only instances from this id on' }),
  group: Type.Optional(group),
  in: Type.Optional(
    Type.String({
      maxLength: limits.fleetGroupName,
      description: 'With `group`: the name of a group of GET /api/fleet/groups',
    }),
  ),
  sort: Type.Optional(choice(fleetSorts, 'Default: id')),
  down: Type.Optional(choice(['true'])),
  after: Type.Optional(Type.String({ maxLength: 1_000, description: 'Cursor: `next` of the previous page' })),
  limit: Type.Optional(Digits(`Rows a page, 1 to ${limits.pageSize}; default: 100`)),
})
export type FleetQuery = Static<typeof FleetQuery>

export const SharedFleet = Type.Object({
  at: { ...Timestamp, description: 'When it was read' },
  instances: Type.Array(SharedFleetInstance),
  next: nullable(
    Type.String({
      description:
        'Pass it as `after` for the next page; null on the last page. A page of a rare filter may have fewer rows than `limit`, also none',
    }),
  ),
})
export type SharedFleet = Static<typeof SharedFleet>

const FleetCounts = Type.Object({
  all: Count,
  active: Count,
  suspended: Count,
  offline: Count,
  silent: { ...Count, description: 'Offline for longer than is usual for the agent, and without a goodbye' },
  asked: { ...Count, description: 'Instances that a suspension can only ask to stop' },
  unresumed: { ...Count, description: 'Not suspended, and the last change is not confirmed' },
  states: Type.Object(
    Object.fromEntries(suspensionStates.map((state) => [state, Count])) as Record<
      CurrentSuspension['state'],
      typeof Count
    >,
  ),
})
export type FleetCounts = Static<typeof FleetCounts>

const FleetMark = Type.Object({
  from: InstanceId,
  to: Type.Optional({ ...InstanceId, description: 'Absent = the mark is one instance' }),
  agents: Count,
  offline: Type.Optional(Count),
  suspended: Type.Optional(Count),
  unconfirmed: Type.Optional({ ...Count, description: 'Of the suspended ones, those that have not confirmed' }),
  violated: Type.Optional({ ...Count, description: 'Of the suspended ones, those that were active since' }),
})
export type FleetMark = Static<typeof FleetMark>

const WaitingAgents = Type.Object({
  state: choice(workingStates),
  agents: Count,
  since: { ...Timestamp, description: 'The earliest of them' },
  first: Type.Array(
    Type.Object({ id: InstanceId, since: Timestamp, fail_mode: nullable(choice(['open', 'closed'])) }),
    {
      description: `The first ${limits.fleetNamed} by id`,
    },
  ),
})

const SilentGroup = Type.Object({
  agents: Count,
  since: { ...Timestamp, description: 'The earliest last heartbeat of the group' },
  ids: Type.Array(InstanceId, { description: 'At most three' }),
})

const FleetState = Type.Object({
  counts: FleetCounts,
  marks: Type.Array(FleetMark, {
    description: `At most some ${limits.fleetMarks} parts of the fleet, by id; none with a filter`,
  }),
  waiting: Type.Array(WaitingAgents, { description: 'Suspended instances that may still be working' }),
  silent: Type.Array(SilentGroup, {
    description: `Silent instances, by heartbeats that ended within 30 seconds of each other, newest first; at most ${limits.fleetSilent}`,
  }),
})
export type FleetState = Static<typeof FleetState>

const FleetSummary = Type.Object({
  at: { ...Timestamp, description: 'When it was read' },
  digest: Type.String({ description: 'Pass it as `known`: an unchanged answer is then left out' }),
  state: Type.Optional({ ...FleetState, description: 'Absent = as with the digest `known`' }),
})
export type FleetSummary = Static<typeof FleetSummary>

const FleetGroups = Type.Object({
  groups: Type.Array(
    Type.Object({
      name: Type.String({ description: 'Empty for instances without such a tag' }),
      all: Count,
      suspended: Count,
      unconfirmed: Count,
      offline: Count,
    }),
    { description: `By name, at most ${limits.fleetGroups}` },
  ),
  omitted: { ...Count, description: 'Number of groups that are not listed' },
})
export type FleetGroups = Static<typeof FleetGroups>

const FleetTags = Type.Object({
  tags: Type.Array(
    Type.Object({
      tag: Type.String(),
      running: { ...Count, description: 'Instances that are not suspended' },
      suspended: Count,
      resumable: {
        ...Count,
        description: 'Suspended ones to which an operator gave it: a resume does not follow what agents say',
      },
    }),
    { description: `Most frequent first, at most ${limits.fleetTags}` },
  ),
  groups: Type.Array(Type.String(), { description: 'What GET /api/fleet/groups can group by' }),
})
export type FleetTags = Static<typeof FleetTags>

const reading = { access: access.readers, teams: 'agents', feature: 'instances' } as const

export const fleetEndpoints = {
  getFleet: define({
    ...reading,
    method: 'GET',
    path: '/api/fleet',
    summary: 'A page of the fleet as dashboards list it: filtered, sorted and at most two seconds old',
    query: FleetQuery,
    status: 200,
    reply: SharedFleet,
  }),
  getFleetSummary: define({
    ...reading,
    method: 'GET',
    path: '/api/fleet/summary',
    summary: 'Counts of the fleet, its marks, and what of it needs attention: of one size for any fleet',
    query: Type.Object({
      ...filters,
      known: Type.Optional(
        Pattern('^[\\w-]+$', 'must be a digest', { maxLength: 64, description: 'The digest of the last answer' }),
      ),
    }),
    status: 200,
    reply: FleetSummary,
  }),
  getFleetGroups: define({
    ...reading,
    method: 'GET',
    path: '/api/fleet/groups',
    summary: 'Count instances by what their tags say',
    query: Type.Object({ ...filters, by: group }),
    status: 200,
    reply: FleetGroups,
  }),
  getFleetTags: define({
    ...reading,
    method: 'GET',
    path: '/api/fleet/tags',
    summary: 'Count instances by tag',
    status: 200,
    reply: FleetTags,
  }),
}
