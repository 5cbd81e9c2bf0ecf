import { alertTypes, eventTypes } from '@wardline/contract'
import type { AlertFacts } from './alert-match.ts'
import type { Severity } from './message.ts'

/** An alert as rules see it. `by_service`: the service itself says so; a caller may report any type from any source. */
export interface JudgedAlert extends AlertFacts {
  by_service: 0 | 1
}

/** News that ends problems, each with the severity of these. */
const endings: Record<string, { types: string[]; severity: Severity }> = {
  [eventTypes.instanceRecovered]: { types: [eventTypes.instanceOffline], severity: 'warning' },
  [alertTypes.killConfirmed]: {
    types: [alertTypes.instanceSuspended, alertTypes.killUnconfirmed],
    severity: 'warning',
  },
  [alertTypes.channelRecovered]: { types: [alertTypes.channelFailing], severity: 'critical' },
}

/** Types of alerts that this one ends; none for a problem, and none when a caller says so. */
export const endedBy = ({ by_service, event_type }: JudgedAlert): readonly string[] =>
  by_service === 1 ? (endings[event_type]?.types ?? []) : []

/**
 * What decides who is told: news that a problem is over concerns whoever was told of the problem, although the news
 * itself is none to wake anybody for.
 */
export function asProblem(alert: JudgedAlert): AlertFacts {
  const ending = alert.by_service === 1 ? endings[alert.event_type] : undefined
  return ending ? { ...alert, severity: ending.severity, event_type: ending.types[0]! } : alert
}

const killTypes: readonly string[] = [
  alertTypes.instanceSuspended,
  alertTypes.killUnconfirmed,
  alertTypes.killConfirmed,
]

/** Kills, resumes and what came of them. */
export const isOfKillSwitch = ({ by_service, event_type }: JudgedAlert): boolean =>
  by_service === 1 && (event_type === alertTypes.instanceResumed || killTypes.includes(event_type))

/** What belongs to the same problem has the same name: `<type> <instance>`. */
export function groupNameOf(alert: JudgedAlert): string {
  const { event_type: type, instance_id: instance, by_service } = alert
  const subject = instance === null ? '' : ` ${instance}`
  if (by_service === 1 && killTypes.includes(type)) return `kill${subject}`
  // A caller's event of the same type is another problem: it must neither join nor end what the service says.
  return `${by_service === 1 ? '' : 'reported '}${asProblem(alert).event_type}${subject}`
}
