import { alertTypes, eventTypes } from '@wardline/contract'
import type { AlertFacts } from './alert-match.ts'
import type { Severity } from './message.ts'

/** An alert as rules see it. `by_service`: the service itself says so; a caller may report any type from any source. */
export interface JudgedAlert extends AlertFacts {
  by_service: 0 | 1
}

const killProblems = [alertTypes.instanceSuspended, alertTypes.killUnconfirmed]

/** News that ends problems, each with the severity of these. */
const endings: Record<string, { types: readonly string[]; severity: Severity }> = {
  [eventTypes.instanceRecovered]: { types: [eventTypes.instanceOffline], severity: 'warning' },
  [alertTypes.killConfirmed]: { types: killProblems, severity: 'warning' },
  [alertTypes.instanceResumed]: { types: killProblems, severity: 'warning' },
  [alertTypes.fleetRecovered]: { types: [alertTypes.fleetOutage], severity: 'critical' },
  [alertTypes.channelRecovered]: { types: [alertTypes.channelFailing], severity: 'critical' },
}

const endingOf = ({ by_service, event_type }: JudgedAlert) => (by_service === 1 ? endings[event_type] : undefined)

/** Types of alerts that this one ends; none for a problem, and none when a caller says so. */
export const endedBy = (alert: JudgedAlert): readonly string[] => endingOf(alert)?.types ?? []

/**
 * What decides who is told: the alert itself, and for news that a problem is over that problem. It concerns whoever was
 * told of it, although the news itself is none to wake anybody for.
 */
export function facesOf(alert: JudgedAlert): AlertFacts[] {
  const ending = endingOf(alert)
  const problems = ending?.types.map((event_type) => ({ ...alert, severity: ending.severity, event_type })) ?? []
  return [alert, ...problems]
}

const killTypes: readonly string[] = [...killProblems, alertTypes.killConfirmed, alertTypes.instanceResumed]

/** Kills, resumes and what came of them. */
export const isOfKillSwitch = ({ by_service, event_type }: JudgedAlert): boolean =>
  by_service === 1 && killTypes.includes(event_type)

/** Whether the service itself will say when the problem of a group is over. */
export function hasEnding(groupName: string): boolean {
  const [problem = ''] = groupName.split(' ', 1)
  return problem === 'kill' || Object.values(endings).some(({ types }) => types.includes(problem))
}

/** Types of which the service itself tells. */
const ownTypes: readonly string[] = [
  ...Object.values(alertTypes),
  eventTypes.honeypotTriggered,
  eventTypes.anomalyDetected,
  eventTypes.instanceOffline,
  eventTypes.instanceRecovered,
  eventTypes.activityWhileSuspended,
]

/** A caller says what the service itself would say: who reads it must see that the service did not. */
export const isClaimed = ({ by_service, event_type }: { by_service: 0 | 1 | boolean; event_type: string }): boolean =>
  !by_service && ownTypes.includes(event_type)

/** What belongs to the same problem has the same name: `<type> <instance>`. */
export function groupNameOf(alert: JudgedAlert): string {
  const { event_type, instance_id: instance, by_service } = alert
  const subject = instance === null ? '' : ` ${instance}`
  // A caller's event of the same type is another problem: it must neither join nor end what the service says.
  if (by_service === 0) return `reported ${event_type}${subject}`
  return `${isOfKillSwitch(alert) ? 'kill' : (endedBy(alert)[0] ?? event_type)}${subject}`
}
