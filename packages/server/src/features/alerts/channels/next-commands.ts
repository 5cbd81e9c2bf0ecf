import { alertTypes, eventTypes } from '@wardline/contract'
import { endedBy, isApprovalRequest } from '../outbox/alert.ts'
import type { DeliveredAlert, Message } from './message.ts'

/** Pattern of ids and types. Commands are copied into a shell, so they contain no other text from outside. */
const word = /^[a-z0-9_-]{1,100}$/

/** Commands that show the cause of alerts which the service itself reported. */
const lookAt = new Map<string, string>([
  [eventTypes.approvalRequested, 'wardline approvals'],
  [alertTypes.fleetOutage, 'wardline status'],
  [alertTypes.channelFailing, 'wardline channels list'],
  [alertTypes.alertingChanged, 'wardline channels list'],
  [alertTypes.protectionChanged, 'wardline audit list'],
])

/** Without `--`, an id that begins with a dash would be parsed as an option. */
const onInstance = (command: string, id: string): string => `${command}${id.startsWith('-') ? ' --' : ''} ${id}`

function firstSteps({ by_service, event_type, severity, instance_id, ...alert }: DeliveredAlert): string[] {
  const known = by_service ? lookAt.get(event_type) : undefined
  if (known !== undefined) return [known]
  const { key, instance_name, suspension } = alert
  if (by_service && event_type === eventTypes.identityMismatch && key !== null && /^[a-z0-9]+$/.test(key.id)) {
    return [`wardline keys revoke ${key.id}`]
  }
  // The service refuses to kill an instance that is not registered.
  if (instance_id === null || instance_name === null || !word.test(instance_id) || !word.test(event_type)) return []
  const isSilent = by_service && event_type === eventTypes.instanceOffline
  if (suspension !== null || isSilent || severity === 'info') return [onInstance('wardline instances', instance_id)]
  return [onInstance(`wardline kill --reason ${event_type}`, instance_id)]
}

/** Machines receive the end of a problem as a message of kind `alert`, not `resolved`. */
const isEnding = (alert: DeliveredAlert): boolean =>
  endedBy({ ...alert, by_service: alert.by_service ? 1 : 0 }).length > 0

/** Returns commands for the reader of a message, the most urgent first, each complete. Empty for tests and checks. */
export function nextCommands({ kind, group, alerts }: Pick<Message, 'kind' | 'group' | 'alerts'>): string[] {
  const newest = alerts.at(-1)
  if (newest === undefined || !word.test(newest.id)) return []
  if (group === null) return ['wardline alerts list --status open']
  if (newest.open !== null && word.test(newest.open.id)) return [`wardline alerts ack ${newest.open.id}`]
  if (kind === 'resolved' || isEnding(newest)) return [`wardline alerts show ${newest.id}`]
  return [...firstSteps(newest), `wardline alerts ack ${newest.id}`]
}

/** Maximum length of a link; a longer one would leave no room for the alerts. */
const maxLink = 500

/** Returns the address of a path of the service, without the user and password of its public URL. */
export function publicAddress(publicUrl: string, path: string): URL {
  const url = new URL(publicUrl)
  url.username = ''
  url.password = ''
  url.pathname = `${url.pathname.replace(/\/+$/, '')}${path}`
  return url
}

/** Returns the page of the dashboard for a message; null without a public URL, or if the link is too long. */
export function dashboardLink({ group, alerts }: Pick<Message, 'group' | 'alerts'>, publicUrl: string | undefined) {
  if (publicUrl === undefined) return null
  const newest = group === null ? undefined : alerts.at(-1)
  const isAsked = newest !== undefined && isApprovalRequest(newest)
  const url = publicAddress(publicUrl, isAsked ? '/approvals' : '/alerts')
  // The alert of a request has its id. A summary of many has another one, and no event.
  if (isAsked && newest.event_seq !== null) url.pathname += `/${newest.id}`
  else if (newest !== undefined && !isAsked) url.searchParams.set('alert', newest.id)
  return url.href.length > maxLink ? null : url.href
}
