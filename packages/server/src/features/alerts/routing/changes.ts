import { type AlertMatch, alertTypes, eventTypes, isServiceType, type Severity } from '@wardline/contract'
import type { Trx } from '../../../db/database.ts'
import type { Deps } from '../../../deps.ts'
import { type Action, type Actor, recordAction } from '../../audit/audit.ts'
import { isAtOrAbove } from '../outbox/alert.ts'
import type { Outbox } from '../outbox/outbox.ts'
import type { ChannelOptions } from './channel-options.ts'
import { countChange, countEnabled } from './queries.ts'
import type { Route, RoutingTable } from './routing-table.ts'

/** A change that reduces notifications or protection. */
interface Reduction {
  severity: Severity
  /** Predicate of a sentence: what was changed. */
  text: string
}

interface ChannelState extends ChannelOptions {
  name: string
  type: string
  destination: string
}

const channelOf = ({ name, type }: Pick<ChannelState, 'name' | 'type'>): string => `the channel "${name}" (${type})`

export const removed = (channel: ChannelState): Reduction[] =>
  channel.enabled ? [{ severity: 'critical', text: `removed ${channelOf(channel)}` }] : []

/** Buttons let people decide who have no key. */
export const givenButtons = (channel: Pick<ChannelState, 'name' | 'type'>): Reduction => ({
  severity: 'critical',
  text: `let everyone who reads ${channelOf(channel)} decide approvals`,
})

/** Returns the reductions by a change of a channel. A new destination is one too, because the old receiver gets nothing. */
export function reductionsOf(before: ChannelState, after: ChannelState, isRedirected: boolean): Reduction[] {
  if (!before.enabled) return []
  const channel = channelOf(before)
  if (!after.enabled) return [{ severity: 'critical', text: `disabled ${channel}` }]
  const found: Reduction[] = []
  if (isRedirected) {
    const moved = before.destination === after.destination ? '' : ` instead of ${before.destination}`
    found.push({
      severity: 'critical',
      text: `replaced the settings of ${channel}: it sends to ${after.destination}${moved}`,
    })
  }
  // Info is for machines, which choose their minimum severity themselves.
  const isRaised = before.min_severity !== after.min_severity && isAtOrAbove(after.min_severity, before.min_severity)
  if (isRaised && isAtOrAbove(after.min_severity, 'critical')) {
    found.push({ severity: 'critical', text: `raised the minimum severity of ${channel} to ${after.min_severity}` })
  }
  const hours = JSON.stringify(after.quiet_hours)
  if (after.quiet_hours !== null && hours !== JSON.stringify(before.quiet_hours)) {
    const { from, to, time_zone } = after.quiet_hours
    found.push({ severity: 'warning', text: `gave ${channel} quiet hours from ${from} to ${to} (${time_zone})` })
  }
  if (after.max_per_minute < before.max_per_minute) {
    const text = `lowered the messages of ${channel} from ${before.max_per_minute} to ${after.max_per_minute} a minute`
    found.push({ severity: 'warning', text })
  }
  // Only the check shows that a channel without alerts still works.
  if (before.daily_check && !after.daily_check) {
    found.push({ severity: 'warning', text: `turned off the daily check of ${channel}` })
  }
  // Alerts could then be resolved, which stops their reminders, without notice.
  if (before.send_resolved && !after.send_resolved) {
    found.push({ severity: 'warning', text: `turned off the notice of resolved alerts of ${channel}` })
  }
  return found
}

const isAll = (match: AlertMatch): boolean => Object.keys(match).length === 0

/** Whether a change of routes reduces a channel's alerts. Without any route it accepts all. */
export function isNarrowed(channelId: string, before: readonly Route[], after: readonly Route[]): boolean {
  const matchesOf = (routes: readonly Route[]) =>
    routes.filter(({ channels }) => channels.includes(channelId)).map(({ match }) => match)
  const now = matchesOf(after)
  if (now.length === 0 || now.some(isAll)) return false
  const known = new Set(now.map((match) => JSON.stringify(match)))
  const old = matchesOf(before)
  return old.length === 0 || old.some((match) => !known.has(JSON.stringify(match)))
}

export const narrowed = (channel: Pick<ChannelState, 'name' | 'type'>): Reduction => ({
  severity: 'critical',
  text: `changed routes so that ${channelOf(channel)} receives fewer alerts`,
})

/** Types of the service whose silence hides nothing: ends of problems, restarts, and hits that an operator had ignored. */
const harmlessTypes: readonly string[] = [
  eventTypes.anomalyEnded,
  eventTypes.brakeReleased,
  eventTypes.drillAnswered,
  eventTypes.drillsAnswered,
  eventTypes.honeypotIgnored,
  eventTypes.instanceRecovered,
  eventTypes.instanceReporting,
  eventTypes.instanceRestarted,
  eventTypes.instancesRecovered,
  alertTypes.channelRecovered,
  alertTypes.containmentCompleted,
  alertTypes.fleetRecovered,
]

/** Whether a silence of the type may hide an attack: a pattern, or a type that the service itself reports. */
const hidesAttack = (type: string): boolean =>
  type.endsWith('*') || (isServiceType(type) && !harmlessTypes.includes(type))

/**
 * Whether a silence may hide an attack: unless it is only of info, or of types by their names that agents report, or that
 * end problems. Its instances do not matter: an attack may need only one, and a prefix may match the whole fleet.
 */
export const mayHideAttacks = ({ severities, types }: AlertMatch): boolean =>
  !severities?.every((severity) => severity === 'info') && (types === undefined || types.some(hidesAttack))

const listed = (name: string, values: readonly string[] | undefined) =>
  values === undefined ? [] : [`${name} ${values.slice(0, 5).join(', ')}${values.length > 5 ? ' and others' : ''}`]

export function silenced({ severities, types, instances }: AlertMatch, endsAt: string, reason: string): Reduction {
  // Otherwise harmless types in front could hide one among the others.
  const firstHiding = types?.toSorted((one, other) => Number(hidesAttack(other)) - Number(hidesAttack(one)))
  const conditions = [
    ...listed('severity', severities),
    ...listed('type', firstHiding),
    ...listed('instance', instances),
  ]
  const what = conditions.length === 0 ? 'everything' : `all of ${conditions.join('; ')}`
  return { severity: 'critical', text: `silenced ${what} until ${endsAt} (${reason.slice(0, 200)})` }
}

/** Dependencies of changes of channels, routes and silences. */
export interface RoutingChange {
  deps: Deps
  table: RoutingTable
  outbox: Outbox
  actor: Actor
}

/** Result of a change. `reductions`: by how it reduces notifications. */
export interface Changed<Result> {
  result: Result
  reductions: readonly Reduction[]
  entry: Action
}

/**
 * Runs a change exclusively among all changes of channels, routes and silences. Alerts all other channels about reductions
 * in the same transaction, before the audit entry: locks taken in different orders could deadlock.
 */
export async function runChange<Result>(
  { deps: { clock, database, log }, outbox, actor }: RoutingChange,
  work: (trx: Trx, now: number) => Promise<Changed<Result>>,
): Promise<Result> {
  const now = clock.now()
  const { result, reductions, left } = await database.db.transaction().execute(async (trx) => {
    await countChange(trx)
    const { result, reductions, entry } = await work(trx, now)
    const alerts = reductions.map(({ severity, text }) => ({
      severity,
      event_type: alertTypes.alertingChanged,
      instance_id: null,
      description: `${actor.name} ${text}.`.slice(0, 1_000),
    }))
    await outbox.write(trx, alerts, now)
    const left = reductions.length === 0 ? undefined : await countEnabled(trx)
    await recordAction(database, trx, actor, entry, now)
    return { result, reductions, left }
  })
  for (const { text } of reductions) log.warn({ actor: actor.keyId, change: text }, 'alerting was reduced')
  if (left === 0) log.warn({ actor: actor.keyId }, 'no alert channel is left: alerts notify no one')
  if (reductions.length > 0) outbox.notify()
  return result
}
