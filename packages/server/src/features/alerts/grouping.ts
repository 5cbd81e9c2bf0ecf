import { alertTypes, eventTypes } from '@wardline/contract'
import { highest, isAtLeast, matchesAlert } from './alert-match.ts'
import type { KnownChannel, Silence } from './directory.ts'
import type { Severity } from './message.ts'
import { quietUntil } from './quiet-hours.ts'
import { endedBy, facesOf, groupNameOf, isOfKillSwitch, type JudgedAlert } from './resolutions.ts'

/** How long what follows the first alert of a group is collected: long enough to join, short enough to act on. */
const collectMs = (severity: Severity) => (isAtLeast(severity, 'critical') ? 10_000 : 30_000)
/** The least time between two messages of a group after the first two. */
const groupIntervalMs = 5 * 60_000
/** How often people are reminded of what nobody acknowledged; a lesser group is over after that time without news. */
export const repeatMs = 4 * 3_600_000
/** Three days: who did not react by then reads no reminders. */
const maxReminders = 18
/** An alert that is planned later than this was held up by a pause of the service or of the channel: no first-hand news. */
const lateAfterMs = 3_600_000
/** When the limit of a channel is used up, what follows is collected this long. */
const stormMs = 60_000
/** A fleet-wide outage explains single ones for this long. */
const outageExplainsMs = 5 * 60_000

/** Names of what a channel holds back; no group of alerts has such a name. */
export const held = { storm: '~storm', quiet: '~quiet hours', late: '~late' } as const
export const isHeld = (name: string): boolean => name.startsWith('~')

/** One problem at one channel for people; times in epoch milliseconds. */
export interface Group {
  name: string
  severity: Severity
  /** Alerts that wait to be told. */
  waiting: number
  /** When they, or a reminder, go out; null = nothing to come. */
  due_at: number | null
  told_at: number | null
  /** Messages so far. */
  messages: number
  /** Reminders since the last news. */
  reminders: number
  state: 'open' | 'acknowledged' | 'resolved'
}

export interface PlannedAlert extends JudgedAlert {
  created_at: number
}

export interface Surroundings {
  channel: Pick<KnownChannel, 'send_resolved' | 'quiet_hours'>
  silences: readonly Silence[]
  /** Groups of this channel by name. */
  groups: ReadonlyMap<string, Group>
  /** Whether the channel may get another message within this minute. */
  hasRoom: boolean
  now: number
}

/** What is to happen with one alert. `ended`: this group is over. */
export type Decision =
  | { outcome: 'silenced' | 'inhibited'; ended?: string }
  /** It waits in this group, which now is as given. */
  | { outcome: 'waiting'; group: Group; ended?: string }
  /** It goes out at once, with all that waited in its group, which then is as given. */
  | { outcome: 'told'; kind: 'alert'; group: Group; ended?: undefined }
  | { outcome: 'told'; kind: 'resolved'; ended: string }

/** What goes out at once whatever the hour and however much there was: results of kills, first hits on a decoy, outages. */
function isUrgent(alert: JudgedAlert, group: Group | undefined): boolean {
  if (alert.by_service === 0) return false
  if (isOfKillSwitch(alert)) return true
  const firstOnly: readonly string[] = [eventTypes.honeypotTriggered, alertTypes.fleetOutage, alertTypes.channelFailing]
  return group === undefined && firstOnly.includes(alert.event_type)
}

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
})

/** The group after a message that told all that waited. */
function told(group: Group | undefined, name: string, severity: Severity, now: number): Group {
  const first = fresh(name, severity, now)
  return group ? { ...first, severity: highest(group.severity, severity), messages: group.messages + 1 } : first
}

/** What is held back for another reason than its group. */
function holdBack(name: string, severity: Severity, dueAt: number, groups: ReadonlyMap<string, Group>) {
  const group = groups.get(name)
  const waiting = (group?.waiting ?? 0) + 1
  const due_at = Math.max(group?.due_at ?? dueAt, name === held.storm ? 0 : dueAt)
  const base = group ?? { name, told_at: null, messages: 0, reminders: 0, state: 'open' as const }
  return {
    outcome: 'waiting' as const,
    group: { ...base, severity: highest(group?.severity ?? severity, severity), waiting, due_at },
  }
}

function join(group: Group, { severity }: PlannedAlert, now: number): Decision {
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

/** Whether people asked not to be told: of the alert, or of the problem that it ends. */
export const isSilenced = (alert: JudgedAlert, silences: readonly Silence[], now: number): boolean =>
  silences.some(({ match, ends_at }) => ends_at > now && facesOf(alert).some((face) => matchesAlert(match, face)))

/** Decides about news that a problem is over. */
function decideEnd(
  alert: PlannedAlert,
  group: Group | undefined,
  { channel, silences, groups, now }: Omit<Surroundings, 'hasRoom'>,
): Decision {
  const ended = groupNameOf(alert)
  // Alerts of the problem that wait are told with its end, or they would never be.
  const hasNews = group !== undefined && group.waiting > 0
  if (!hasNews && isSilenced(alert, silences, now)) return { outcome: 'silenced', ended }
  if (isOfKillSwitch(alert) || hasNews) return { outcome: 'told', kind: 'resolved', ended }
  if (!channel.send_resolved || group === undefined || group.messages === 0) return { outcome: 'inhibited', ended }
  const quiet = channel.quiet_hours === null ? undefined : quietUntil(channel.quiet_hours, group.severity, now)
  if (quiet !== undefined) return { ...holdBack(held.quiet, alert.severity, quiet, groups), ended }
  return { outcome: 'told', kind: 'resolved', ended }
}

/** Decides about one alert that a channel for people takes. Pure: the caller keeps the groups. */
export function decide(alert: PlannedAlert, { channel, silences, groups, hasRoom, now }: Surroundings): Decision {
  const name = groupNameOf(alert)
  const group = groups.get(name)
  if (endedBy(alert).length > 0) return decideEnd(alert, group, { channel, silences, groups, now })
  if (isSilenced(alert, silences, now)) return { outcome: 'silenced' }
  if (isExplained(alert, groups)) return { outcome: 'inhibited' }
  if (isUrgent(alert, group)) {
    return { outcome: 'told', kind: 'alert', group: told(group, name, alert.severity, now) }
  }
  const quiet = channel.quiet_hours === null ? undefined : quietUntil(channel.quiet_hours, alert.severity, now)
  if (quiet !== undefined) return holdBack(held.quiet, alert.severity, quiet, groups)
  if (now - alert.created_at > lateAfterMs) return holdBack(held.late, alert.severity, now + collectMs('info'), groups)
  // What got worse is told at once.
  if (group && isAtLeast(group.severity, alert.severity)) return join(group, alert, now)
  if (!hasRoom) return holdBack(held.storm, alert.severity, now + stormMs, groups)
  return { outcome: 'told', kind: 'alert', group: told(group, name, alert.severity, now) }
}

function isExplained(alert: PlannedAlert, groups: ReadonlyMap<string, Group>): boolean {
  if (alert.by_service === 0 || alert.event_type !== eventTypes.instanceOffline) return false
  const outage = groups.get(alertTypes.fleetOutage)
  return outage?.told_at != null && alert.created_at - outage.told_at <= outageExplainsMs
}

/** What is to happen with a group whose time has come. */
export type Flush =
  /** All that waits is told; the group then is as given, or over. */
  | { kind: 'alert' | 'digest'; group: Group | null }
  | { kind: 'reminder'; group: Group }
  | { kind: 'resolved' }
  /** All that waits moves to the group that collects a storm, and this one is as given, or over. */
  | { kind: 'join storm'; storm: Group; group: Group | null }
  /** People are not to be reminded just now. */
  | { kind: 'wait'; group: Group }
  /** Whatever still waits is over before it was told. */
  | { kind: 'end' }

export interface FlushSurroundings extends Pick<Surroundings, 'channel' | 'groups' | 'hasRoom' | 'now'> {
  /** The latest alerts of the group that nobody acknowledged or resolved. */
  unattended: readonly JudgedAlert[]
  silences: readonly Silence[]
}

/** Decides about a group that is due. Pure. */
export function flush(group: Group, surroundings: FlushSurroundings): Flush {
  const { channel, groups, hasRoom, now } = surroundings
  if (group.state === 'resolved') {
    return channel.send_resolved && group.messages > 0 ? { kind: 'resolved' } : { kind: 'end' }
  }
  if (group.waiting > 0) {
    if (isHeld(group.name)) return { kind: 'digest', group: null }
    const after = told(group, group.name, group.severity, now)
    if (hasRoom) return { kind: 'alert', group: after }
    const storm = groups.get(held.storm)
    const joined = holdBack(held.storm, group.severity, now + stormMs, groups)
    return {
      kind: 'join storm',
      storm: { ...joined.group, waiting: (storm?.waiting ?? 0) + group.waiting },
      group: { ...after, messages: group.messages, told_at: group.told_at },
    }
  }
  return remind(group, surroundings)
}

function remind(group: Group, { channel, now, unattended, silences }: FlushSurroundings): Flush {
  const isSerious = isAtLeast(group.severity, 'critical') || group.name.startsWith(`${eventTypes.instanceOffline} `)
  const isDue = isSerious && group.state === 'open' && unattended.length > 0 && group.reminders < maxReminders
  if (!isDue) return { kind: 'end' }
  const quiet = channel.quiet_hours === null ? undefined : quietUntil(channel.quiet_hours, group.severity, now)
  if (quiet !== undefined) return { kind: 'wait', group: { ...group, due_at: quiet } }
  if (unattended.every((alert) => isSilenced(alert, silences, now))) {
    return { kind: 'wait', group: { ...group, due_at: now + repeatMs } }
  }
  const next = { ...group, due_at: now + repeatMs, messages: group.messages + 1, reminders: group.reminders + 1 }
  return { kind: 'reminder', group: { ...next, told_at: now } }
}
