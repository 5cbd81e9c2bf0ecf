import type { EventFilter, Row } from '../data/live-tail.ts'

/** Quotes a text for a shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

export const asJson = (row: Row): string => JSON.stringify(row, null, 2)

/** Returns the curl command that lists the same events. It contains no key. */
export function asCurl(origin: string, filter: EventFilter): string {
  const query = new URLSearchParams(
    Object.entries(filter).filter(([, value]) => value !== undefined) as [string, string][],
  )
  return `curl -H "X-Monitor-Key: $WARDLINE_KEY" ${quoted(`${origin}/api/events?${query}`)}`
}

/** Returns the curl command that reads one event; undefined for an event that is not stored. */
export function curlOfEvent(origin: string, { seq }: Row): string | undefined {
  if (seq === null) return undefined
  return `curl -H "X-Monitor-Key: $WARDLINE_KEY" ${quoted(`${origin}/api/events?before=${seq + 1}&limit=1`)}`
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
