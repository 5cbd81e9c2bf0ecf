import { type EventColumn, type EventRow, eventColumns, limits, ruleLimits, toolOf } from '@wardline/contract'
import { askedOnce } from './asked-once.ts'
import { shown } from './fault.ts'

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
  /** Whether it is found by a walk through lists of the metadata. */
  isDeep: boolean
  /** Undefined if the event lacks the field; null if its value is null. */
  read(event: RuleEvent): unknown
  /** The value with texts in lower case, also within lists. */
  lower(event: RuleEvent): unknown
}

const metadataPrefix = 'metadata.'

function lowerOf(value: unknown): unknown {
  switch (typeof value) {
    case 'string':
      return value.toLowerCase()
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
  /** Hour of the event, 0 to 23, UTC. */
  hour: ({ row }) => Number(row.created_at.slice(11, 13)),
}

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

/** Resolves a path, through each element of lists on the way. */
function descend(value: unknown, path: readonly string[], from: number): unknown {
  if (from === path.length) return value
  if (Array.isArray(value)) {
    walked += elementUnits * value.length
    const found = value.map((element) => descend(element, path, from)).filter((element) => element !== undefined)
    return found.length === 0 ? undefined : found.flat()
  }
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, path[from]!)) return undefined
  return descend((value as Record<string, unknown>)[path[from]!], path, from + 1)
}

/** Returns the field of this name, or a sentence that says why there is none. */
export function findField(name: string): Field | string {
  if (Object.hasOwn(ownFields, name)) return fieldOf(name, ownFields[name]!)
  if (!name.startsWith(metadataPrefix)) {
    return `Events have no field ${shown(name)}: they have ${Object.keys(ownFields).join(', ')} and metadata.<path>.`
  }
  const path = name.slice(metadataPrefix.length).split('.')
  if (path.includes('')) return `${shown(name)} is a path with an empty name.`
  if (path.length > ruleLimits.pathDepth)
    return `${shown(name)} is deeper than metadata can be (${ruleLimits.pathDepth}).`
  const [first = ''] = path
  if (path.length > 1) return fieldOf(name, ({ row }) => descend(row.metadata, path, 0))
  return fieldOf(name, ({ row: { metadata } }) =>
    metadata !== null && Object.hasOwn(metadata, first) ? metadata[first] : undefined,
  )
}

/** Whether the field is outside of the metadata. */
export const isOwnField = (name: string): boolean => Object.hasOwn(ownFields, name)
