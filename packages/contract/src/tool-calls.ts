import { descriptionOf } from './event-titles.ts'
import { eventTypes } from './event-types.ts'
import type { EventRow } from './events.ts'

/** What a call does, in the fields that all clients report. A caller may send anything under these names. */
interface ToolCallFields {
  action: string | null
  paths: string[]
  hosts: string[]
  command: string | null
}

const textOf = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null)
const textsOf = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((each) => textOf(each) !== null) : []

/** Returns the fields of a call in an event's metadata; all empty for other events. */
export function toolCallOf({ event_type, metadata }: Pick<EventRow, 'event_type' | 'metadata'>): ToolCallFields {
  const { action, paths, hosts, command } = event_type === eventTypes.toolCall ? (metadata ?? {}) : {}
  return { action: textOf(action), paths: textsOf(paths), hosts: textsOf(hosts), command: textOf(command) }
}

/** Paths and hosts named in a line. */
const maxNamed = 3

/** Describes an event in a line: of a call also its command, or the files and hosts in it. */
export function lineTextOf(row: Pick<EventRow, 'event_type' | 'description' | 'metadata'>): string {
  const { paths, hosts, command } = toolCallOf(row)
  const named = [...paths, ...hosts]
  const more = named.length > maxNamed ? `, ${named.length - maxNamed} more` : ''
  const what = command ?? `${named.slice(0, maxNamed).join(', ')}${more}`
  const description = descriptionOf(row)
  return what === '' || description.includes(what) ? description : `${description} · ${what}`
}
