import { type AlertMatch, alertTypes, eventTypes, type Severity } from '@wardline/contract'
import { hourMs } from '../../../clock.ts'
import type { Schema } from '../../../db/schema.ts'
import {
  type AlertFacts,
  endedBy,
  facesOf,
  groupNameOf,
  hasEnding,
  highest,
  isAlertingChange,
  isApprovalRequest,
  isAtOrAbove,
  isOfKillSwitch,
  isProtectionChange,
  type Lane,
  laneOf,
  type MatchedFacts,
  matchesAlert,
  mustBeNamed,
} from '../outbox/alert.ts'
import type { PlannedAlert } from '../outbox/queries.ts'
import { quietUntil } from '../routing/quiet-hours.ts'
import type { KnownChannel, Silence } from '../routing/routing-table.ts'

/** How long alerts after the first one of a group are collected into one message. */
const collectMs = (severity: Severity) => (isAtOrAbove(severity, 'critical') ? 10_000 : 30_000)
/** Minimum time between two messages of a group after the first two. */
const groupIntervalMs = 5 * 60_000
/** Interval of reminders of unacknowledged alerts. A group below critical ends after this time without a new alert. */
export const repeatMs = 4 * hourMs
/** Maximum number of reminders: three days, after which they would only be noise. */
const maxReminders = 18
/** An alert planned later than this was delayed by a pause of the service or the channel. */
const lateAfterMs = hourMs
/** How long alerts are collected after the rate limit of a channel is used up. */
const stormMs = 60_000
/** Maximum size of a group that is moved to a digest; a larger one stays separate. */
const maxMoved = 500
/** How long a fleet-wide outage explains outages of single agents. */
const outageExplainsMs = 5 * 60_000

/**
 * Names of the digests of a channel, by lane, so that own alerts do not vanish among reports. They differ from all names
 * of groups of alerts.
 */
export const delayedNames = {
  own: { storm: '~own storm', quiet: '~own quiet hours', late: '~own late' },
  reported: { storm: '~storm', quiet: '~quiet hours', late: '~late' },
} as const
const isDelayedName = (name: string): boolean => name.startsWith('~')
const delayedReportNames: readonly string[] = Object.values(delayedNames.reported)

/** Returns the lane in which the messages of a group are sent. */
export const laneOfGroup = (name: string): Lane =>
  name.startsWith('reported ') || delayedReportNames.includes(name) ? 'reported' : 'own'

/** One problem at one channel for people, as stored, see db/schema/alerts.ts. The planner sets `message_id`. */
export type AlertGroup = Omit<Schema['alert_groups'], 'channel_id'>

/** Fields of an alert that planning uses. */
export type DecidedAlert = AlertFacts & Pick<PlannedAlert, 'created_at'>

/** Messages that a channel for people may still get within the current minute. */
interface Room {
  /** Negative if urgent messages exceeded the limit. */
  room: number
  /** Urgent messages may use twice the limit. They are limited too, because an attacker with a decoy could flood people. */
  urgentRoom: number
}

/**
 * Own messages are limited independently of reported ones. Reports leave them a quarter of the limit, otherwise the rate
 * limit of a receiver could refuse own messages because of reports.
 */
export function roomsOf(perMinute: number, sent: Record<Lane, number>): Record<Lane, Room> {
  const own = { room: perMinute - sent.own, urgentRoom: 2 * perMinute - sent.own }
  const kept = Math.max(sent.own, Math.floor(perMinute / 4))
  const room = perMinute - kept - sent.reported
  return { own, reported: { room, urgentRoom: room } }
}

interface Surroundings extends Room {
  channel: Pick<KnownChannel, 'send_resolved' | 'quiet_hours'>
  silences: readonly Silence[]
  /** Groups of the channel, by name. */
  groups: ReadonlyMap<string, AlertGroup>
  /** Whether another problem may be remembered for the channel. */
  mayRemember: boolean
  now: number
}

/** Decision on an alert. `ended`: name of a group that is over. */
type Decision =
  | { outcome: 'silenced' | 'inhibited'; ended?: string }
  /** The alert waits in `group`, which is to be stored. */
  | { outcome: 'waiting'; group: AlertGroup; remembered?: AlertGroup; ended?: string }
  /** The alert is sent at once with all waiting alerts of its group; `group` is to be stored. */
  | { outcome: 'sent'; kind: 'alert'; group: AlertGroup; ended?: undefined }
  | { outcome: 'sent'; kind: 'resolved'; ended: string }

/**
 * Whether the alert is the first critical own alert of a problem, or the first one after a pause: it is sent at once, even
 * in quiet hours, up to a limit. Sent with later ones, it would arrive after what was done about it.
 */
const isUrgent = (alert: AlertFacts, group: AlertGroup | undefined, now: number): boolean =>
  (group === undefined || (group.waiting === 0 && group.told_at !== null && now - group.told_at >= groupIntervalMs)) &&
  laneOf(alert) === 'own' &&
  isAtOrAbove(alert.severity, 'critical')

/** Returns a group after its first message. `due_at`: time of the first reminder, or of the end of a less severe group. */
const fresh = (name: string, severity: Severity, now: number): AlertGroup => ({
  name,
  severity,
  waiting: 0,
  due_at: now + repeatMs,
  told_at: now,
  messages: 1,
  reminders: 0,
  state: 'open',
  message_id: null,
})

/** Returns the group after a message with all waiting alerts. */
function afterMessage(group: AlertGroup | undefined, name: string, severity: Severity, now: number): AlertGroup {
  const first = fresh(name, severity, now)
  return group ? { ...first, severity: highest(group.severity, severity), messages: group.messages + 1 } : first
}

const isQuietName = (name: string): boolean => name === delayedNames.own.quiet || name === delayedNames.reported.quiet

/** Delays an alert into a digest. */
function delay(name: string, severity: Severity, dueAt: number, groups: ReadonlyMap<string, AlertGroup>) {
  const group = groups.get(name)
  const waiting = (group?.waiting ?? 0) + 1
  // Only quiet hours may change the due time, because they may have been changed; other digests keep theirs.
  const due_at = isQuietName(name) ? dueAt : (group?.due_at ?? dueAt)
  const base = group ?? { name, told_at: null, messages: 0, reminders: 0, state: 'open' as const, message_id: null }
  return {
    outcome: 'waiting' as const,
    group: { ...base, severity: highest(group?.severity ?? severity, severity), waiting, due_at },
  }
}

function join(group: AlertGroup, alert: DecidedAlert, now: number): Decision {
  const { severity } = alert
  const soonest = now + collectMs(severity)
  // Who opens the first of several requests for approval sees all of them.
  const isPage = group.messages < 2 && !isApprovalRequest(alert)
  const nextAt = isPage ? soonest : Math.max(soonest, (group.told_at ?? 0) + groupIntervalMs)
  return {
    outcome: 'waiting',
    group: {
      ...group,
      severity: highest(group.severity, severity),
      waiting: group.waiting + 1,
      due_at: group.waiting > 0 && group.due_at !== null ? Math.min(group.due_at, nextAt) : nextAt,
      reminders: 0,
      state: 'open',
    },
  }
}

/** Returns the end of the quiet hours that now apply to this severity; undefined if none do. */
const quietFor = ({ quiet_hours }: Surroundings['channel'], severity: Severity, now: number): number | undefined =>
  quiet_hours === null ? undefined : quietUntil(quiet_hours, severity, now)

/** Whether a match names the type or instance of an alert explicitly, not by a pattern. */
const names = ({ types, instances }: AlertMatch, { event_type, instance_id }: MatchedFacts): boolean =>
  types?.includes(event_type) === true || (instance_id !== null && instances?.includes(instance_id) === true)

/**
 * Whether a silence applies to the alert or to the problem that it ends. Silences of everything or of a prefix do not apply
 * to decoy hits and kills.
 */
export function isSilenced(alert: AlertFacts, silences: readonly Silence[], now: number): boolean {
  if (isProtectionChange(alert)) return false
  const keeps = (match: AlertMatch, face: MatchedFacts) =>
    matchesAlert(match, face) && (alert.by_service === 0 || !mustBeNamed(alert.event_type) || names(match, face))
  return silences.some(({ match, ends_at }) => ends_at > now && facesOf(alert).some((face) => keeps(match, face)))
}

const delayedWaiting = (groups: ReadonlyMap<string, AlertGroup>, lane: Lane): AlertGroup | undefined =>
  Object.values(delayedNames[lane])
    .map((name) => groups.get(name))
    .find((group) => group !== undefined && group.waiting > 0)

/** Decides on an alert that ends a problem. */
function decideEnd(
  alert: DecidedAlert,
  group: AlertGroup | undefined,
  { channel, silences, groups, now }: Surroundings,
): Decision {
  const ended = groupNameOf(alert)
  // Waiting alerts of the problem are sent together with its end, otherwise they would never be.
  const hasNews = group !== undefined && group.waiting > 0
  if (!hasNews && isSilenced(alert, silences, now)) return { outcome: 'silenced', ended }
  if (isOfKillSwitch(alert) || hasNews) return { outcome: 'sent', kind: 'resolved', ended }
  if (!channel.send_resolved || group === undefined) return { outcome: 'inhibited', ended }
  // The end of a problem in a digest joins that digest.
  const digest = group.messages === 0 ? delayedWaiting(groups, laneOf(alert)) : undefined
  if (digest) return { ...delay(digest.name, alert.severity, digest.due_at ?? now, groups), ended }
  const quiet = quietFor(channel, group.severity, now)
  if (quiet !== undefined) return { ...delay(delayedNames[laneOf(alert)].quiet, alert.severity, quiet, groups), ended }
  return { outcome: 'sent', kind: 'resolved', ended }
}

/** Decides on an alert for a channel for people. Pure: the caller stores the groups. */
export function decideAlert(alert: DecidedAlert, surroundings: Surroundings): Decision {
  const { channel, silences, groups, room, urgentRoom, now } = surroundings
  const name = groupNameOf(alert)
  const group = groups.get(name)
  if (endedBy(alert).length > 0) return decideEnd(alert, group, surroundings)
  if (isSilenced(alert, silences, now)) return { outcome: 'silenced' }
  if (isExplained(alert, groups)) return { outcome: 'inhibited' }
  const sendNow = {
    outcome: 'sent' as const,
    kind: 'alert' as const,
    group: afterMessage(group, name, alert.severity, now),
  }
  if (isOfKillSwitch(alert) || isAlertingChange(alert) || (isUrgent(alert, group, now) && urgentRoom > 0))
    return sendNow
  const delayFor = (reason: keyof (typeof delayedNames)[Lane], dueAt: number) => ({
    ...delay(delayedNames[laneOf(alert)][reason], alert.severity, dueAt, groups),
    ...remember(alert, group, dueAt, surroundings),
  })
  const quiet = quietFor(channel, alert.severity, now)
  if (quiet !== undefined) return delayFor('quiet', quiet)
  if (now - alert.created_at > lateAfterMs) return delayFor('late', now + collectMs('info'))
  // An alert of higher severity than its group is sent at once.
  if (group && isAtOrAbove(group.severity, alert.severity)) return join(group, alert, now)
  return room > 0 ? sendNow : delayFor('storm', now + stormMs)
}

/** Remembers a problem first sent in a digest, so that people get reminders and its end too. */
function remember(
  alert: DecidedAlert,
  group: AlertGroup | undefined,
  notifiedAt: number,
  { mayRemember }: Surroundings,
) {
  const { severity } = alert
  if (group) {
    const due_at = group.due_at ?? notifiedAt + repeatMs
    const news = { severity: highest(group.severity, severity), state: 'open' as const, reminders: 0, due_at }
    return { remembered: { ...group, ...news } }
  }
  if (!mayRemember || !(alert.by_service === 1 || isAtOrAbove(severity, 'critical'))) return {}
  // No reminder before the digest is sent.
  return { remembered: { ...fresh(groupNameOf(alert), severity, notifiedAt), told_at: null, messages: 0 } }
}

function isExplained(alert: DecidedAlert, groups: ReadonlyMap<string, AlertGroup>): boolean {
  if (alert.by_service === 0 || alert.event_type !== eventTypes.instanceOffline) return false
  const outage = groups.get(alertTypes.fleetOutage)
  return outage?.told_at != null && alert.created_at - outage.told_at <= outageExplainsMs
}

/** Decision on a due group. */
export type Flush =
  /** All waiting alerts are sent; `group` is to be stored, or over if null. */
  | { kind: 'alert' | 'digest'; group: AlertGroup | null }
  | { kind: 'reminder'; group: AlertGroup }
  | { kind: 'resolved' }
  /** All waiting alerts move to the digest of a storm; both groups are to be stored. */
  | { kind: 'join storm'; storm: AlertGroup; group: AlertGroup }
  /** Nothing is sent yet. */
  | { kind: 'wait'; group: AlertGroup }
  | { kind: 'end' }

interface FlushSurroundings extends Pick<Surroundings, 'channel' | 'groups' | 'room' | 'now'> {
  /** Latest open alerts of the group. */
  unattended: readonly AlertFacts[]
  silences: readonly Silence[]
}

/** Decides on a due group. Pure. */
export function flush(group: AlertGroup, surroundings: FlushSurroundings): Flush {
  const { channel, groups, room, now } = surroundings
  if (group.state === 'resolved') {
    const isWanted = group.waiting > 0 || channel.send_resolved
    return { kind: isWanted ? 'resolved' : 'end' }
  }
  if (group.waiting > 0) {
    // Quiet hours may have been changed to others that apply now too.
    const quiet = isQuietName(group.name) ? quietFor(channel, group.severity, now) : undefined
    if (quiet !== undefined) return { kind: 'wait', group: { ...group, due_at: quiet } }
    if (isDelayedName(group.name)) return { kind: 'digest', group: null }
    const after = afterMessage(group, group.name, group.severity, now)
    if (room > 0) return { kind: 'alert', group: after }
    if (group.waiting > maxMoved) return { kind: 'wait', group: { ...group, due_at: now + stormMs } }
    const { storm: name } = delayedNames[laneOfGroup(group.name)]
    const storm = groups.get(name)
    const joined = delay(name, group.severity, now + stormMs, groups)
    return {
      kind: 'join storm',
      storm: { ...joined.group, waiting: (storm?.waiting ?? 0) + group.waiting },
      group: { ...after, messages: group.messages, told_at: group.told_at },
    }
  }
  return remind(group, surroundings)
}

function remind(group: AlertGroup, { channel, room, now, unattended, silences }: FlushSurroundings): Flush {
  const isSerious = isAtOrAbove(group.severity, 'critical') || group.name.startsWith(`${eventTypes.instanceOffline} `)
  const isDue = isSerious && group.state === 'open' && unattended.length > 0 && group.reminders < maxReminders
  // Keep a problem without further reminders, to notify people of its end.
  if (!isDue) return hasEnding(group.name) ? { kind: 'wait', group: { ...group, due_at: null } } : { kind: 'end' }
  const quiet = quietFor(channel, group.severity, now)
  if (quiet !== undefined) return { kind: 'wait', group: { ...group, due_at: quiet } }
  if (unattended.every((alert) => isSilenced(alert, silences, now))) {
    return { kind: 'wait', group: { ...group, due_at: now + repeatMs } }
  }
  if (room <= 0) return { kind: 'wait', group: { ...group, due_at: now + stormMs } }
  // A reminder does not change the time of notification, from which an outage explains others.
  const next = { ...group, due_at: now + repeatMs, messages: group.messages + 1, reminders: group.reminders + 1 }
  return { kind: 'reminder', group: next }
}
