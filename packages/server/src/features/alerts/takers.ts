import { type AlertFacts, isAtLeast, matchesAlert } from './alert-match.ts'
import type { Directory, KnownChannel } from './directory.ts'
import { facesOf, type JudgedAlert } from './resolutions.ts'

function takesAs({ id, min_severity }: KnownChannel, routes: Directory['routes'], alert: AlertFacts): boolean {
  if (!isAtLeast(alert.severity, min_severity)) return false
  const own = routes.filter(({ channels }) => channels.includes(id))
  return own.length === 0 || own.some(({ match }) => matchesAlert(match, alert))
}

/** A channel that routes name takes what one of them matches, any other takes all; never below its least severity. */
export function takes(channel: KnownChannel, routes: Directory['routes'], alert: JudgedAlert): boolean {
  return channel.enabled && facesOf(alert).some((face) => takesAs(channel, routes, face))
}
