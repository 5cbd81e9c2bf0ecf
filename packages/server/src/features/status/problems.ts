import { limits, type Problem, type ProblemList, severities } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { Team } from '../../db/teams.ts'
import { readHandledProblems } from '../alerts/handled-problems.ts'
import { type ProblemCount, readProblemCounts, reportsOf } from '../events/problem-counts.ts'

/** Up to so many agents with the same problem are listed one by one: each may need another answer. */
const maxSeparate = 3

/** Counts that are one problem, latest first. */
type Group = readonly [ProblemCount, ...ProblemCount[]]

const rankOf = ([{ severity, by_service }]: Group) => 2 * severities.indexOf(severity) + by_service
const newestFirst = (one: ProblemCount, other: ProblemCount) => other.last_seq - one.last_seq

/** Groups counts, each group newest first. */
const groupsOf = (counts: readonly ProblemCount[], keyOf: (count: ProblemCount) => string) =>
  [...Map.groupBy(counts.toSorted(newestFirst), keyOf).values()] as unknown as Group[]

/** An agent that invents types must not fill the list. The service reports few types. */
const isMixed = (ofAgent: Group) => ofAgent[0].by_service === 0 && ofAgent.length > limits.problemTypes

/**
 * Groups counts into problems: most severe first, of these the service's own, then the newest. Many agents with the same
 * type are one problem, and so is an agent with many types.
 */
export function groupProblems(counts: readonly ProblemCount[]): Group[] {
  const ofAgents = groupsOf(
    counts,
    ({ severity, by_service, instance_id }) => `${severity} ${by_service} ${instance_id}`,
  )
  const rest = ofAgents.filter((group) => !isMixed(group)).flat()
  const ofTypes = groupsOf(
    rest,
    ({ severity, by_service, event_type, instance_id }) =>
      `${severity} ${by_service} ${event_type} ${instance_id === ''}`,
  ).flatMap((group) => (group.length > maxSeparate ? [group] : group.map((count): Group => [count])))
  return [...ofAgents.filter(isMixed), ...ofTypes].sort(
    (one, other) => rankOf(other) - rankOf(one) || newestFirst(one[0], other[0]),
  )
}

/** Returns what needs a person: critical events and breaches of 24 hours that nobody acknowledged yet. */
export async function readProblemList(db: Db, now: number, team: Team): Promise<ProblemList> {
  const [{ problems: counts, isComplete }, handled] = await Promise.all([
    readProblemCounts(db, now, team),
    readHandledProblems(db, now),
  ])
  const groups = groupProblems(counts.filter((count) => !handled.isHandled(count)))
  const listed = groups.slice(0, limits.problems)
  const [reports, alerts] = await Promise.all([
    reportsOf(
      db,
      listed.map(([{ last_seq }]) => last_seq),
    ),
    handled.openAlerts(listed.map(([count]) => count)),
  ])
  let room = 2 * limits.problemInstances
  const problems = listed.map((group, index): Problem => {
    const [{ severity, by_service, event_type, last_at, last_seq }] = group
    const ids = [...new Set(group.flatMap(({ instance_id }) => instance_id || []))]
    const instances = ids.slice(0, Math.min(room, limits.problemInstances))
    room -= instances.length
    const report = reports.get(last_seq)
    return {
      severity,
      by_service: by_service === 1,
      event_type,
      types: new Set(group.map((count) => count.event_type)).size,
      agents: ids.length,
      instances,
      events: group.reduce((sum, { count }) => sum + count, 0),
      first_at: isoTime(Math.min(...group.map(({ first_at }) => first_at))),
      last_at: isoTime(last_at),
      last_seq,
      source: report?.source ?? null,
      description: report?.description ?? null,
      open_alert: ids.length > 1 ? null : alerts[index]!,
    }
  })
  return { problems, omitted: groups.length - listed.length, complete: isComplete }
}
