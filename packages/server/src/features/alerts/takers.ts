import { eventTypes } from '@wardline/contract'
import { type AlertFacts, isAtLeast, matchesAlert } from './alert-match.ts'
import type { Directory, KnownChannel } from './directory.ts'

/**
 * What decides is the problem: that an instance is back concerns whoever was told that it fell silent, although the
 * news itself is none to wake anybody for.
 */
const asProblem = (alert: AlertFacts): AlertFacts =>
  alert.event_type === eventTypes.instanceRecovered
    ? { ...alert, severity: 'warning', event_type: eventTypes.instanceOffline }
    : alert

/** A channel that routes name takes what one of them matches, any other takes all; never below its least severity. */
export function takes(channel: KnownChannel, routes: Directory['routes'], alert: AlertFacts): boolean {
  if (!channel.enabled) return false
  const fitsSelf = takesOne(channel, routes, alert)
  return fitsSelf || (alert.event_type === eventTypes.instanceRecovered && takesOne(channel, routes, asProblem(alert)))
}

function takesOne({ id, min_severity }: KnownChannel, routes: Directory['routes'], alert: AlertFacts): boolean {
  if (!isAtLeast(alert.severity, min_severity)) return false
  const own = routes.filter(({ channels }) => channels.includes(id))
  return own.length === 0 || own.some(({ match }) => matchesAlert(match, alert))
}
