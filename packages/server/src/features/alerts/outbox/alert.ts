import { type AlertMatch, alertTypes, eventTypes, serviceEventTypes, severities } from '@wardline/contract'
import { matchesPattern } from '@wardline/text'
import type { Schema } from '../../../db/schema.ts'

/** An alert in the outbox, with what people did about it. */
export type StoredAlert = Schema['alerts']
export type Severity = StoredAlert['severity']

/** What rules look at. `by_service`: the service itself says so; a caller may report any type from any source. */
export type AlertFacts = Pick<StoredAlert, 'severity' | 'event_type' | 'instance_id' | 'by_service'> & {
  /** What it is about when that is no instance. */
  subject?: string | null
  only_channels?: string | null
}

/** What routes and silences compare. */
export type MatchedFacts = Omit<AlertFacts, 'by_service' | 'subject' | 'only_channels'>

/** What the service itself reports without an event. */
export type OwnAlert = Omit<AlertFacts, 'by_service'> & Pick<StoredAlert, 'description'>

const rank = (severity: Severity): number => severities.indexOf(severity)

export const isAtOrAbove = (severity: Severity, minimum: Severity): boolean => rank(severity) >= rank(minimum)
export const highest = (left: Severity, right: Severity): Severity => (isAtOrAbove(left, right) ? left : right)

/** Every given part must match. An alert without an instance matches only what names no instances. */
export function matchesAlert({ severities: among, types, instances }: AlertMatch, alert: MatchedFacts): boolean {
  const { severity, event_type, instance_id } = alert
  if (among && !among.includes(severity)) return false
  if (types && !types.some((pattern) => matchesPattern(pattern, event_type))) return false
  return !instances || (instance_id !== null && instances.some((pattern) => matchesPattern(pattern, instance_id)))
}

const killProblems = [alertTypes.instanceSuspended, alertTypes.killUnconfirmed]
const containmentProblems = [alertTypes.containmentStarted, alertTypes.containmentIncomplete]

/** Alerts that end problems, each with the severity of these. */
const endings: Record<string, { types: readonly string[]; severity: Severity }> = {
  [eventTypes.instanceRecovered]: { types: [eventTypes.instanceOffline], severity: 'warning' },
  [eventTypes.instanceReporting]: { types: [eventTypes.instanceBlind], severity: 'warning' },
  [eventTypes.drillAnswered]: { types: [eventTypes.drillOverdue], severity: 'warning' },
  [eventTypes.drillsAnswered]: { types: [eventTypes.drillsOverdue], severity: 'warning' },
  [eventTypes.brakeReleased]: { types: [eventTypes.brakeEngaged], severity: 'critical' },
  [alertTypes.killConfirmed]: { types: killProblems, severity: 'warning' },
  [alertTypes.instanceResumed]: { types: killProblems, severity: 'warning' },
  [alertTypes.containmentCompleted]: { types: containmentProblems, severity: 'critical' },
  [alertTypes.fleetRecovered]: { types: [alertTypes.fleetOutage], severity: 'critical' },
  [alertTypes.channelRecovered]: { types: [alertTypes.channelFailing], severity: 'critical' },
}

const endingOf = ({ by_service, event_type }: AlertFacts) => (by_service === 1 ? endings[event_type] : undefined)

/** Types of alerts that this one ends; none for a problem, and none when a caller reports it. */
export const endedBy = (alert: AlertFacts): readonly string[] => endingOf(alert)?.types ?? []

/**
 * What decides who is notified: the alert itself, and for the end of a problem that problem too. Who was notified of the
 * problem wants its end, whose own severity is too low for most channels.
 */
export function facesOf(alert: AlertFacts): MatchedFacts[] {
  const ending = endingOf(alert)
  const problems = ending?.types.map((event_type) => ({ ...alert, severity: ending.severity, event_type })) ?? []
  return [alert, ...problems]
}

const killTypes: readonly string[] = [...killProblems, alertTypes.killConfirmed, alertTypes.instanceResumed]

/** Kills, resumes and their results. */
export const isOfKillSwitch = ({ by_service, event_type }: AlertFacts): boolean =>
  by_service === 1 && killTypes.includes(event_type)

const containmentTypes: readonly string[] = [...containmentProblems, alertTypes.containmentCompleted]

/** Types that only a silence which names them suppresses: decoy hits, kills and their results. */
export const mustBeNamed = (event_type: string): boolean =>
  event_type === eventTypes.honeypotTriggered || killTypes.includes(event_type)

/** A change of who is notified: sent at once, to every channel, and never silenced. */
export const isAlertingChange = ({ by_service, event_type }: AlertFacts): boolean =>
  by_service === 1 && event_type === alertTypes.alertingChanged

/** Whether the service itself reports the end of a group's problem. */
export function hasEnding(groupName: string): boolean {
  const [problem = ''] = groupName.split(' ', 1)
  return (
    ['kill', 'containment'].includes(problem) || Object.values(endings).some(({ types }) => types.includes(problem))
  )
}

/** Whether it stands for reports that were too many to be alerts each. */
export const isSummary = ({ by_service, event_type }: Pick<AlertFacts, 'by_service' | 'event_type'>): boolean =>
  by_service === 1 && event_type === alertTypes.alertsSummarized

/** Types that the service itself reports. */
const ownTypes: readonly string[] = [...Object.values(alertTypes), ...serviceEventTypes]

/** Whether a caller reports a type of the service's: a reader must see that the service did not. */
export const isClaimed = ({ by_service, event_type }: { by_service: 0 | 1 | boolean; event_type: string }): boolean =>
  !by_service && ownTypes.includes(event_type)

/** Alerts of the same problem have the same name: `<type> <instance> <subject>`, as far as it has them. */
export function groupNameOf(alert: AlertFacts): string {
  const { event_type, by_service } = alert
  const subject = [alert.instance_id, alert.subject].map((part) => (part ? ` ${part}` : '')).join('')
  // A caller's event of the same type is another problem: it must neither join nor end what the service reports.
  if (by_service === 0) return `reported ${event_type}${subject}`
  // No type of a caller holds this mark.
  if (isSummary(alert)) return `reported ~more${subject}`
  if (isOfKillSwitch(alert)) return `kill${subject}`
  if (containmentTypes.includes(event_type)) return `containment${subject}`
  return `${endedBy(alert)[0] ?? event_type}${subject}`
}

/**
 * The service's own alerts and reported ones go separate ways, from the outbox to the receiver: a caller that floods the
 * one never delays the other. Own comes first.
 */
export const lanes = ['own', 'reported'] as const
export type Lane = (typeof lanes)[number]

/** A summary of reports is grouped with these: a flood of reports must not fill the service's own lane. */
export const laneOf = (alert: Pick<AlertFacts, 'by_service' | 'event_type'>): Lane =>
  alert.by_service === 1 && !isSummary(alert) ? 'own' : 'reported'
