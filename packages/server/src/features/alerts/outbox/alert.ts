import { type AlertMatch, alertTypes, eventTypes, isServiceType, type Severity, severities } from '@wardline/contract'
import { matchesPattern } from '@wardline/text'
import type { Schema } from '../../../db/schema.ts'

/** A stored alert, with its handling by people. */
export type StoredAlert = Schema['alerts']

/** Fields that routes and silences match. `by_service`: reported by the service itself; a caller may use any type and source. */
export type AlertFacts = Pick<StoredAlert, 'severity' | 'event_type' | 'instance_id' | 'by_service'> & {
  /** Subject of an alert that is not about an instance. */
  subject?: string | null
  only_channels?: string | null
}

/** A match of a route or silence. */
export type MatchedFacts = Omit<AlertFacts, 'by_service' | 'subject' | 'only_channels'>

/** An alert of the service itself without an event. */
export type OwnAlert = Omit<AlertFacts, 'by_service'> & Pick<StoredAlert, 'description'>

const rank = (severity: Severity): number => severities.indexOf(severity)

export const isAtOrAbove = (severity: Severity, minimum: Severity): boolean => rank(severity) >= rank(minimum)
export const highest = (left: Severity, right: Severity): Severity => (isAtOrAbove(left, right) ? left : right)

/** Whether every given part matches. An alert without an instance only matches without `instances`. */
export function matchesAlert({ severities: among, types, instances }: AlertMatch, alert: MatchedFacts): boolean {
  const { severity, event_type, instance_id } = alert
  if (among && !among.includes(severity)) return false
  if (types && !types.some((pattern) => matchesPattern(pattern, event_type))) return false
  return !instances || (instance_id !== null && instances.some((pattern) => matchesPattern(pattern, instance_id)))
}

const killProblems = [alertTypes.instanceSuspended, alertTypes.killUnconfirmed]
const containmentProblems = [alertTypes.containmentStarted, alertTypes.containmentIncomplete]

/** Types of alerts that end problems, with the severity of the problems. */
const endings: Record<string, { types: readonly string[]; severity: Severity }> = {
  [eventTypes.instanceRecovered]: { types: [eventTypes.instanceOffline], severity: 'warning' },
  [eventTypes.reportMismatchEnded]: { types: [eventTypes.reportMismatch], severity: 'warning' },
  [eventTypes.instanceReporting]: { types: [eventTypes.instanceBlind], severity: 'warning' },
  [eventTypes.drillAnswered]: { types: [eventTypes.drillOverdue], severity: 'warning' },
  [eventTypes.drillsAnswered]: { types: [eventTypes.drillsOverdue], severity: 'warning' },
  [eventTypes.approvalDecided]: { types: [eventTypes.approvalRequested], severity: 'warning' },
  [eventTypes.brakeReleased]: { types: [eventTypes.brakeEngaged], severity: 'critical' },
  [alertTypes.killConfirmed]: { types: killProblems, severity: 'warning' },
  [alertTypes.instanceResumed]: { types: [...killProblems, eventTypes.childrenUnconfirmed], severity: 'warning' },
  [alertTypes.containmentCompleted]: { types: containmentProblems, severity: 'critical' },
  [alertTypes.fleetRecovered]: { types: [alertTypes.fleetOutage], severity: 'critical' },
  [alertTypes.channelRecovered]: { types: [alertTypes.channelFailing], severity: 'critical' },
}

const endingOf = ({ by_service, event_type }: AlertFacts) => (by_service === 1 ? endings[event_type] : undefined)

/** Returns the types of alerts that this one ends; none for a problem or a report by a caller. */
export const endedBy = (alert: AlertFacts): readonly string[] => endingOf(alert)?.types ?? []

/**
 * Returns the alerts that decide who is notified: the alert itself and, for the end of a problem, that problem. Its
 * recipients must be notified of the end, whose own severity is too low for most channels.
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

/** Types that are only suppressed by a silence that names them: decoy hits, kills and their results. */
export const mustBeNamed = (event_type: string): boolean =>
  [eventTypes.honeypotTriggered, eventTypes.childrenUnconfirmed, ...killTypes].includes(event_type)

/** Whether an agent waits for a person. */
export const isApprovalRequest = ({
  by_service,
  event_type,
}: Pick<AlertFacts, 'event_type'> & { by_service: 0 | 1 | boolean }): boolean =>
  Boolean(by_service) && event_type === eventTypes.approvalRequested

/** Whether alerting itself was changed: sent at once. */
export const isAlertingChange = ({ by_service, event_type }: AlertFacts): boolean =>
  by_service === 1 && event_type === alertTypes.alertingChanged

/** Whether alerting or other protection was changed: sent to every channel, and never silenced. */
export const isProtectionChange = (alert: AlertFacts): boolean =>
  isAlertingChange(alert) || (alert.by_service === 1 && alert.event_type === alertTypes.protectionChanged)

/** Whether the service itself reports the end of a group's problem. */
export function hasEnding(groupName: string): boolean {
  const [problem = ''] = groupName.split(' ', 1)
  return (
    ['kill', 'containment'].includes(problem) || Object.values(endings).some(({ types }) => types.includes(problem))
  )
}

/** Whether the alert is a summary of reports beyond the limit. */
export const isSummary = ({ by_service, event_type }: Pick<AlertFacts, 'by_service' | 'event_type'>): boolean =>
  by_service === 1 && event_type === alertTypes.alertsSummarized

/** Whether a caller used a type of the service: messages must show that the service did not report it. */
export const isClaimed = ({ by_service, event_type }: { by_service: 0 | 1 | boolean; event_type: string }): boolean =>
  !by_service && isServiceType(event_type)

/** Name of the alert's problem: `<type> <instance> <subject>`, as far as present. */
export function groupNameOf(alert: AlertFacts): string {
  const { event_type, by_service } = alert
  const subject = [alert.instance_id, alert.subject].map((part) => (part ? ` ${part}` : '')).join('')
  // A caller's event of the same type is another problem: it must neither join nor end one reported by the service.
  if (by_service === 0) return `reported ${event_type}${subject}`
  // Types of callers cannot contain this mark.
  if (isSummary(alert)) return `reported ~more${subject}`
  if (isOfKillSwitch(alert)) return `kill${subject}`
  if (containmentTypes.includes(event_type)) return `containment${subject}`
  return `${endedBy(alert)[0] ?? event_type}${subject}`
}

/**
 * The service's own alerts and reported ones have separate lanes from the outbox to the receiver, so that a flood of
 * reports never delays the service's own alerts. The own lane goes first.
 */
export const lanes = ['own', 'reported'] as const
export type Lane = (typeof lanes)[number]

/** Summaries of reports use the lane of reports, so that a flood cannot fill the service's own lane. */
export const laneOf = (alert: Pick<AlertFacts, 'by_service' | 'event_type'>): Lane =>
  alert.by_service === 1 && !isSummary(alert) ? 'own' : 'reported'
