import {
  type EventColumn,
  type EventRow,
  eventColumns,
  eventTypes,
  limits,
  ruleLimits,
  secondWitness,
  telemetrySource,
  toolOf,
} from '@wardline/contract'
import { askedOnce } from './asked-once.ts'
import { type DatePart, datePart } from './date-part.ts'
import { shown } from './fault.ts'
import { folded } from './fold.ts'

/** An event with the data that rules use. */
export interface RuleEvent {
  row: EventRow
  /** Tags that operators and keys gave its instance: what an agent says of itself must not exempt it. */
  tags: readonly string[]
}

/** A field of an event. */
export interface Field {
  name: string
  /** Maximum characters of its values. */
  characters: number
  /** Whether its value may be a list of any length. */
  isList: boolean
  /** Whether it is found by a walk through lists of the metadata, or costs as much. */
  isDeep: boolean
  /** Undefined if the event lacks the field; null if its value is null. */
  read(event: RuleEvent): unknown
  /** The value with texts in lower case, also within lists. */
  lower(event: RuleEvent): unknown
}

const metadataPrefix = 'metadata.'
const metricsPrefix = 'metrics.'

function lowerOf(value: unknown): unknown {
  switch (typeof value) {
    case 'string':
      return folded(value)
    case 'number':
    case 'boolean':
      return String(value).toLowerCase()
    default:
      return Array.isArray(value) ? value.map(lowerOf) : value
  }
}

export function fieldOf(name: string, ask: (event: RuleEvent) => unknown): Field {
  const read = askedOnce(`field ${name}`, ask)
  const isList = name.startsWith(metadataPrefix)
  return {
    name,
    characters: isList || name === 'tool' ? limits.metadataBytes : limits.description,
    isList,
    isDeep: isList && name.includes('.', metadataPrefix.length),
    read,
    lower: askedOnce(`lower ${name}`, (event: RuleEvent) => lowerOf(read(event))),
  }
}

/** Columns that rules do not read under the name of the column. */
const otherwiseRead: readonly EventColumn[] = [
  'id',
  'seq',
  'ip_address',
  'observed_ip_address',
  'metadata',
  'created_at',
]

const ownFields: Record<string, (event: RuleEvent) => unknown> = {
  ...Object.fromEntries(
    eventColumns
      .filter((name) => !otherwiseRead.includes(name))
      .map((name) => [name, ({ row }: RuleEvent) => row[name] ?? undefined]),
  ),
  /** Address that the service saw. */
  ip_address: ({ row }) => row.observed_ip_address ?? undefined,
  /** Address that the report names, if it is another one. */
  reported_ip_address: ({ row: { ip_address, observed_ip_address } }) =>
    ip_address === null || ip_address === observed_ip_address ? undefined : ip_address,
  tags: ({ tags }) => (tags.length === 0 ? undefined : tags),
  /** Tool in the metadata, under any of its three names. */
  tool: ({ row }) => toolOf(row.metadata) ?? undefined,
  /** Time of the event, for the modifiers of dates. */
  time: ({ row }) => row.created_at,
  /** Hour of the event, 0 to 23, UTC. */
  hour: ({ row }) => Number(row.created_at.slice(11, 13)),
}

/** Returns the numbers of a `session_metrics` event, which are JSON in its description. */
const metricsOf = askedOnce('metrics', ({ row }: RuleEvent): Record<string, unknown> | undefined => {
  if (row.event_type !== eventTypes.sessionMetrics) return undefined
  try {
    return Object(JSON.parse(row.description))
  } catch {
    return undefined
  }
})

/**
 * Whether telemetry repeats a call that a client of the agent reported, which no rule sees again. A result is more than that:
 * clients report it apart from the call.
 */
export const isRepeatedCall = ({ row: { source, metadata } }: RuleEvent): boolean =>
  source === telemetrySource && metadata?.[secondWitness] === true && metadata.result === undefined

/** Returns the type of an event in lower case. */
export const typeName = fieldOf('event_type', ownFields.event_type!).lower as (event: RuleEvent) => string

/** Returns the tool of an event in lower case. */
export const toolName = fieldOf('tool', ownFields.tool!).lower as (event: RuleEvent) => string | undefined

/** Units of work (see `WorkBudget`) of an element on the way: some 60 ns. */
const elementUnits = 30
let walked = 0

/** Returns the units of walks through metadata since the last call. Not of one rule: rules share what they read. */
export function takeWalked(): number {
  const units = walked
  walked = 0
  return units
}

/** For each place in a path: the names that may follow there, by where the path goes on after them. */
type Names = readonly (readonly [name: string, next: number])[][]

/** Names may contain dots themselves, such as `gen_ai.tool.name`. */
const namesAt = (path: readonly string[]): Names =>
  path.map((_, from) =>
    path.slice(from).map((_, more) => [path.slice(from, from + more + 1).join('.'), from + more + 1] as const),
  )

/** Resolves a path, through each element of lists on the way. */
function descend(value: unknown, path: Names, from: number): unknown {
  if (from === path.length) return value
  if (Array.isArray(value)) {
    walked += elementUnits * value.length
    const found = value.map((element) => descend(element, path, from)).filter((element) => element !== undefined)
    return found.length === 0 ? undefined : found.flat()
  }
  if (typeof value !== 'object' || value === null) return undefined
  for (const [name, next] of path[from]!) {
    if (!Object.hasOwn(value, name)) continue
    const found = descend((value as Record<string, unknown>)[name], path, next)
    if (found !== undefined) return found
  }
  return undefined
}

/** Collects the texts and numbers of a value. */
function collect(value: unknown, found: (string | number | boolean)[]): void {
  walked += elementUnits
  if (typeof value === 'object') for (const each of Object.values(value ?? {})) collect(each, found)
  else if (value !== undefined) found.push(value as string)
}

/** All texts of an event, for keywords. */
export const anywhere = {
  ...fieldOf('any text', ({ row }) => {
    const { source, event_type, description, instance_id, session_id, observed_ip_address, metadata } = row
    const found: (string | number | boolean)[] = []
    collect([source, event_type, description, instance_id, session_id, observed_ip_address, metadata], found)
    return found
  }),
  characters: limits.metadataBytes + limits.description,
  isList: true,
  isDeep: true,
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

/** Elements of a list whose parts of a date are read. */
const maxDates = 50
/** Units of reading a part of a date: some 8 µs. */
const dateUnits = 4_000

/** Returns the field with a part of its dates instead of these. `zone` is that of the rule. */
export function datePartOf(field: Field, part: DatePart, zone: string): Field {
  const read = (value: unknown) => {
    walked += dateUnits
    return datePart(textOf(value) ?? '', part, zone)
  }
  // No name of a field begins so, also where it has any signs.
  const { name, ...derived } = fieldOf(`|${part} in ${zone} of ${field.name}`, (event) => {
    const value = field.read(event)
    return Array.isArray(value) ? value.slice(0, maxDates).map(read) : read(value)
  })
  return { ...field, name, read: derived.read, lower: derived.lower, isDeep: true }
}

/** Returns the field of this name, or a sentence that says why there is none. */
export function findField(name: string): Field | string {
  if (Object.hasOwn(ownFields, name)) return fieldOf(name, ownFields[name]!)
  if (name.startsWith(metricsPrefix)) {
    const metric = name.slice(metricsPrefix.length)
    return fieldOf(name, (event) => {
      const metrics = metricsOf(event)
      return metrics !== undefined && Object.hasOwn(metrics, metric) ? metrics[metric] : undefined
    })
  }
  if (!name.startsWith(metadataPrefix)) {
    return `Events have no field ${shown(name)}: they have ${Object.keys(ownFields).join(', ')}, metrics.<name> and metadata.<path>.`
  }
  const path = name.slice(metadataPrefix.length).split('.')
  if (path.includes('')) return `${shown(name)} is a path with an empty name.`
  if (path.length > ruleLimits.pathDepth)
    return `${shown(name)} is deeper than metadata can be (${ruleLimits.pathDepth}).`
  const [first = ''] = path
  if (path.length > 1) {
    const names = namesAt(path)
    return fieldOf(name, ({ row }) => descend(row.metadata, names, 0))
  }
  return fieldOf(name, ({ row: { metadata } }) =>
    metadata !== null && Object.hasOwn(metadata, first) ? metadata[first] : undefined,
  )
}

/** Whether the field is outside of the metadata. */
export const isOwnField = (name: string): boolean => Object.hasOwn(ownFields, name) || name.startsWith(metricsPrefix)
