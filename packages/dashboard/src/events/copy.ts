import type { QueryOf } from '@wardline/contract'
import type { EventFilter } from '../data/live-tail.ts'

/** Quotes a text for a shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** Returns the curl command that lists the same events. It contains no key. */
export function asCurl(filter: QueryOf<'listEvents'>): string {
  const given = Object.entries(filter ?? {}).filter(([, value]) => value !== undefined) as [string, string][]
  const address = `${location.origin}/api/events?${new URLSearchParams(given)}`
  return `curl -H "X-Monitor-Key: $WARDLINE_KEY" ${quoted(address)}`
}

const options = {
  severity: 'severity',
  event_type: 'type',
  instance_id: 'instance',
  session_id: 'session',
  q: 'grep',
  from: 'from',
  to: 'to',
} as const

/** Returns the CLI command that exports the same events in any format. */
export function asCommand(filter: EventFilter): string {
  const given = Object.entries(options).flatMap(([name, option]) => {
    const value = filter[name as keyof typeof options]
    return value === undefined ? [] : [`--${option} ${quoted(value)}`]
  })
  const command = 'wardline events export --format csv'
  return [command, ...given].join(' ')
}
