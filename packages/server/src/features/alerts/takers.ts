import { type AlertFacts, isAtLeast, matchesAlert } from './alert-match.ts'
import type { Directory, KnownChannel } from './directory.ts'
import { asProblem, type JudgedAlert } from './resolutions.ts'

function takesAs({ id, min_severity }: KnownChannel, routes: Directory['routes'], alert: AlertFacts): boolean {
  if (!isAtLeast(alert.severity, min_severity)) return false
  const own = routes.filter(({ channels }) => channels.includes(id))
  return own.length === 0 || own.some(({ match }) => matchesAlert(match, alert))
}

/** A channel that routes name takes what one of them matches, any other takes all; never below its least severity. */
export function takes(channel: KnownChannel, routes: Directory['routes'], alert: JudgedAlert): boolean {
  if (!channel.enabled) return false
  const problem = asProblem(alert)
  return takesAs(channel, routes, alert) || (problem !== alert && takesAs(channel, routes, problem))
}
