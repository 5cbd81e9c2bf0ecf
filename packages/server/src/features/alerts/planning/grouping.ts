import { type AlertMatch, alertTypes, eventTypes } from '@wardline/contract'
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
  isAtOrAbove,
  isOfKillSwitch,
  type Lane,
  laneOf,
  type MatchedFacts,
  matchesAlert,
  mustBeNamed,
  type Severity,
} from '../outbox/alert.ts'
import type { PlannedAlert } from '../outbox/queries.ts'
import { quietUntil } from '../routing/quiet-hours.ts'
import type { KnownChannel, Silence } from '../routing/routing-table.ts'

/** How long what follows the first alert of a group is collected: long enough to join, short enough to act on. */
const collectMs = (severity: Severity) => (isAtOrAbove(severity, 'critical') ? 10_000 : 30_000)
/** Minimum time between two messages of a group after the first two. */
const groupIntervalMs = 5 * 60_000
/** How often people are reminded of what is not acknowledged; a group below critical ends after that time without a new alert. */
export const repeatMs = 4 * hourMs
/** Three days: later reminders would only be noise. */
const maxReminders = 18
/** An alert that is planned later than this was delayed by a pause of the service or of the channel: it is old. */
const lateAfterMs = hourMs
/** When the limit of a channel is used up, what follows is collected this long. */
const stormMs = 60_000
/** Alerts of a group that are moved to a digest; a larger group stays separate, which costs nothing. */
const maxMoved = 500
/** A fleet-wide outage explains single ones for this long. */
const outageExplainsMs = 5 * 60_000

/** Names of what a channel holds back, by lane: what the service says must not vanish among reports. No group of alerts has such a name. */
export const delayedNames = {
  own: { storm: '~own storm', quiet: '~own quiet hours', late: '~own late' },
  reported: { storm: '~storm', quiet: '~quiet hours', late: '~late' },
} as const
const isDelayedName = (name: string): boolean => name.startsWith('~')
const delayedReportNames: readonly string[] = Object.values(delayedNames.reported)

/** The lane in which the messages of a group are sent. */
export const laneOfGroup = (name: string): Lane =>
  name.startsWith('reported ') || delayedReportNames.includes(name) ? 'reported' : 'own'

/** One problem at one channel for people, as it is stored: see db/schema/alerts.ts. The planner sets `message_id`. */
export type Group = Omit<Schema['alert_groups'], 'channel_id'>

/** Fields of an alert that planning decides by. */
export type DecidedAlert = AlertFacts & Pick<PlannedAlert, 'created_at'>

/** Messages that a channel for people may still get within this minute. */
interface Room {
  /** Below 0 when urgent ones went beyond the limit. */
  room: number
  /** Urgent messages go beyond the limit by as much again: an attacker who holds a decoy could otherwise flood people with hits. */
  urgentRoom: number
}

/**
 * The service's own messages do not count reported ones. Reports leave them a quarter of the limit: otherwise a
 * receiver with a rate limit would refuse the service because of reports.
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
  /** Groups of this channel by name. */
  groups: ReadonlyMap<string, Group>
  /** Whether the channel has so few problems that another one may be remembered. */
  mayRemember: boolean
  now: number
}

/** What is to happen with one alert. `ended`: this group is over. */
type Decision =
  | { outcome: 'silenced' | 'inhibited'; ended?: string }
  /** It waits in this group, which now is as given. */
  | { outcome: 'waiting'; group: Group; remembered?: Group; ended?: string }
  /** It goes out at once, with all that waited in its group, which then is as given. */
  | { outcome: 'told'; kind: 'alert'; group: Group; ended?: undefined }
  | { outcome: 'told'; kind: 'resolved'; ended: string }

/** Sent at once, also in quiet hours, besides kills and their results: the first critical alert of the service itself about a problem. */
const isUrgent = (alert: AlertFacts, group: Group | undefined): boolean =>
  group === undefined && laneOf(alert) === 'own' && isAtOrAbove(alert.severity, 'critical')

/** The first reminder, or the end of a lesser group. */
const fresh = (name: string, severity: Severity, now: number): Group => ({
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

/** The group after a message with all that waited. */
function afterMessage(group: Group | undefined, name: string, severity: Severity, now: number): Group {
  const first = fresh(name, severity, now)
  return group ? { ...first, severity: highest(group.severity, severity), messages: group.messages + 1 } : first
}

const isQuietName = (name: string): boolean => name === delayedNames.own.quiet || name === delayedNames.reported.quiet

/** Delays an alert for another reason than its group. */
function delay(name: string, severity: Severity, dueAt: number, groups: ReadonlyMap<string, Group>) {
  const group = groups.get(name)
  const waiting = (group?.waiting ?? 0) + 1
  // Quiet hours may have been changed meanwhile; anything else is not put off by what follows.
  const due_at = isQuietName(name) ? dueAt : (group?.due_at ?? dueAt)
  const base = group ?? { name, told_at: null, messages: 0, reminders: 0, state: 'open' as const, message_id: null }
  return {
    outcome: 'waiting' as const,
    group: { ...base, severity: highest(group?.severity ?? severity, severity), waiting, due_at },
  }
}

function join(group: Group, { severity }: DecidedAlert, now: number): Decision {
  const soonest = now + collectMs(severity)
  const nextAt = group.messages < 2 ? soonest : Math.max(soonest, (group.told_at ?? 0) + groupIntervalMs)
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

/** When the quiet hours end that now keep this severity from people; undefined when none do. */
const quietFor = ({ quiet_hours }: Surroundings['channel'], severity: Severity, now: number): number | undefined =>
  quiet_hours === null ? undefined : quietUntil(quiet_hours, severity, now)

/** Whether a match names the type or the instance of an alert itself, by no pattern. */
const names = ({ types, instances }: AlertMatch, { event_type, instance_id }: MatchedFacts): boolean =>
  types?.includes(event_type) === true || (instance_id !== null && instances?.includes(instance_id) === true)

/**
 * Whether people asked not to be notified: of the alert, or of the problem that it ends. A silence of everything, or
 * of a prefix, does not suppress decoys and kills.
 */
export function isSilenced(alert: AlertFacts, silences: readonly Silence[], now: number): boolean {
  if (isAlertingChange(alert)) return false
  const keeps = (match: AlertMatch, face: MatchedFacts) =>
    matchesAlert(match, face) && (alert.by_service === 0 || !mustBeNamed(alert.event_type) || names(match, face))
  return silences.some(({ match, ends_at }) => ends_at > now && facesOf(alert).some((face) => keeps(match, face)))
}

const delayedWaiting = (groups: ReadonlyMap<string, Group>, lane: Lane): Group | undefined =>
  Object.values(delayedNames[lane])
    .map((name) => groups.get(name))
    .find((group) => group !== undefined && group.waiting > 0)

/** Decides about news that a problem is over. */
function decideEnd(
  alert: DecidedAlert,
  group: Group | undefined,
  { channel, silences, groups, now }: Surroundings,
): Decision {
  const ended = groupNameOf(alert)
  // Alerts of the problem that wait are sent with its end, or they would never be.
  const hasNews = group !== undefined && group.waiting > 0
  if (!hasNews && isSilenced(alert, silences, now)) return { outcome: 'silenced', ended }
  if (isOfKillSwitch(alert) || hasNews) return { outcome: 'told', kind: 'resolved', ended }
  if (!channel.send_resolved || group === undefined) return { outcome: 'inhibited', ended }
  // A problem that waits in a digest ends there as well.
  const digest = group.messages === 0 ? delayedWaiting(groups, laneOf(alert)) : undefined
  if (digest) return { ...delay(digest.name, alert.severity, digest.due_at ?? now, groups), ended }
  const quiet = quietFor(channel, group.severity, now)
  if (quiet !== undefined) return { ...delay(delayedNames[laneOf(alert)].quiet, alert.severity, quiet, groups), ended }
  return { outcome: 'told', kind: 'resolved', ended }
}

/** Decides about one alert that a channel for people takes. Pure: the caller keeps the groups. */
export function decide(alert: DecidedAlert, surroundings: Surroundings): Decision {
  const { channel, silences, groups, room, urgentRoom, now } = surroundings
  const name = groupNameOf(alert)
  const group = groups.get(name)
  if (endedBy(alert).length > 0) return decideEnd(alert, group, surroundings)
  if (isSilenced(alert, silences, now)) return { outcome: 'silenced' }
  if (isExplained(alert, groups)) return { outcome: 'inhibited' }
  const sendNow = {
    outcome: 'told' as const,
    kind: 'alert' as const,
    group: afterMessage(group, name, alert.severity, now),
  }
  if (isOfKillSwitch(alert) || isAlertingChange(alert) || (isUrgent(alert, group) && urgentRoom > 0)) return sendNow
  const delayFor = (reason: keyof (typeof delayedNames)[Lane], dueAt: number) => ({
    ...delay(delayedNames[laneOf(alert)][reason], alert.severity, dueAt, groups),
    ...remember(alert, group, dueAt, surroundings),
  })
  const quiet = quietFor(channel, alert.severity, now)
  if (quiet !== undefined) return delayFor('quiet', quiet)
  if (now - alert.created_at > lateAfterMs) return delayFor('late', now + collectMs('info'))
  // A higher severity is sent at once.
  if (group && isAtOrAbove(group.severity, alert.severity)) return join(group, alert, now)
  return room > 0 ? sendNow : delayFor('storm', now + stormMs)
}

/** A problem that is first sent in a digest is one nevertheless: people are reminded of it and notified of its end. */
function remember(alert: DecidedAlert, group: Group | undefined, notifiedAt: number, { mayRemember }: Surroundings) {
  const { severity } = alert
  if (group) {
    const due_at = group.due_at ?? notifiedAt + repeatMs
    const news = { severity: highest(group.severity, severity), state: 'open' as const, reminders: 0, due_at }
    return { remembered: { ...group, ...news } }
  }
  if (!mayRemember || !(alert.by_service === 1 || isAtOrAbove(severity, 'critical'))) return {}
  // Without a reminder before the digest was sent.
  return { remembered: { ...fresh(groupNameOf(alert), severity, notifiedAt), told_at: null, messages: 0 } }
}

function isExplained(alert: DecidedAlert, groups: ReadonlyMap<string, Group>): boolean {
  if (alert.by_service === 0 || alert.event_type !== eventTypes.instanceOffline) return false
  const outage = groups.get(alertTypes.fleetOutage)
  return outage?.told_at != null && alert.created_at - outage.told_at <= outageExplainsMs
}

/** What is to happen with a group whose time has come. */
export type Flush =
  /** All that waits is sent; the group then is as given, or over. */
  | { kind: 'alert' | 'digest'; group: Group | null }
  | { kind: 'reminder'; group: Group }
  | { kind: 'resolved' }
  /** All that waits moves to the group that collects a storm; both then are as given. */
  | { kind: 'join storm'; storm: Group; group: Group }
  /** Nothing is sent now. */
  | { kind: 'wait'; group: Group }
  | { kind: 'end' }

interface FlushSurroundings extends Pick<Surroundings, 'channel' | 'groups' | 'room' | 'now'> {
  /** The latest open alerts of the group. */
  unattended: readonly AlertFacts[]
  silences: readonly Silence[]
}

/** Decides about a group that is due. Pure. */
export function flush(group: Group, surroundings: FlushSurroundings): Flush {
  const { channel, groups, room, now } = surroundings
  if (group.state === 'resolved') {
    const isWanted = group.waiting > 0 || channel.send_resolved
    return { kind: isWanted ? 'resolved' : 'end' }
  }
  if (group.waiting > 0) {
    // The hours may have been changed to others that are quiet now as well.
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

function remind(group: Group, { channel, room, now, unattended, silences }: FlushSurroundings): Flush {
  const isSerious = isAtOrAbove(group.severity, 'critical') || group.name.startsWith(`${eventTypes.instanceOffline} `)
  const isDue = isSerious && group.state === 'open' && unattended.length > 0 && group.reminders < maxReminders
  // A problem without further reminders may still end, of which people want to be notified.
  if (!isDue) return hasEnding(group.name) ? { kind: 'wait', group: { ...group, due_at: null } } : { kind: 'end' }
  const quiet = quietFor(channel, group.severity, now)
  if (quiet !== undefined) return { kind: 'wait', group: { ...group, due_at: quiet } }
  if (unattended.every((alert) => isSilenced(alert, silences, now))) {
    return { kind: 'wait', group: { ...group, due_at: now + repeatMs } }
  }
  if (room <= 0) return { kind: 'wait', group: { ...group, due_at: now + stormMs } }
  // A reminder changes nothing about when people were notified: what an outage explains is counted from there.
  const next = { ...group, due_at: now + repeatMs, messages: group.messages + 1, reminders: group.reminders + 1 }
  return { kind: 'reminder', group: next }
}
