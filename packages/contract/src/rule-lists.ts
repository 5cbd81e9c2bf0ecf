import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { Count, nullable, Ok, Pattern, Timestamp, Uuid } from './fields.ts'
import { Type } from './type.ts'

/** Lists that rules name by the modifier `expand`. */
export const listLimits = {
  /** Lists per deployment: people have to find the right one. */
  lists: 100,
  name: 64,
  description: 500,
  /** Entries per list: as many as a field of a rule may have values. */
  entries: 3_000,
  /** Characters of an entry: a host has 253, and paths that matter are shorter. A full list then fits into 1 MiB. */
  entryLength: 300,
  /** Entries that a rule may use after expansion, each use counted: some 2 MiB of its memory. */
  expanded: 10_000,
} as const

const ListName = Pattern('^[a-z0-9_-]+$', 'may contain only lower-case letters, digits, _ and -', {
  minLength: 1,
  maxLength: listLimits.name,
  description: 'Lower-case letters, digits, _ and -; rules name the list between percent signs',
  examples: ['allowed-hosts'],
})
/** One line of a file, so that a list can be written to a file and read again. */
const ListEntry = Pattern(
  '^[^\\s\\x00-\\x1f\\x7f](?:[^\\x00-\\x1f\\x7f\\x85\\u2028\\u2029]*[^\\s\\x00-\\x1f\\x7f])?$',
  'must be one line of text without spaces at its ends',
  { maxLength: listLimits.entryLength },
)
const Entries = (description: string) => Type.Array(ListEntry, { maxItems: listLimits.entries, description })
const Description = Type.String({ maxLength: listLimits.description, description: 'For people' })
const ListVersion = Type.Integer({ minimum: 1, description: 'Grows by one with each change' })

/** Entries by the name of a list. */
export const GivenLists = Type.Unsafe<Record<string, string[]>>({
  type: 'object',
  maxProperties: listLimits.lists,
  additionalProperties: { type: 'array', items: ListEntry, maxItems: listLimits.entries },
})

const listSummary = {
  name: ListName,
  description: Description,
  count: { ...Count, description: 'Number of entries' },
  version: ListVersion,
  rules: Type.Array(Type.Object({ id: Uuid, title: Type.String() }), {
    description: 'Rules that use the list, by title',
  }),
  changed_at: Timestamp,
  changed_by: nullable(Type.String({ description: 'Name of the key that changed it last' })),
}
const ListSummary = Type.Object(listSummary)
export type ListSummary = Static<typeof ListSummary>

const ListView = Type.Object({ ...listSummary, entries: Entries('In the order in which they were added') })
export type ListView = Static<typeof ListView>

const AllLists = Type.Object({
  lists: Type.Array(ListSummary, { maxItems: listLimits.lists, description: 'By name' }),
})
export type AllLists = Static<typeof AllLists>

const ListStored = Type.Object({
  name: ListName,
  version: ListVersion,
  count: { ...Count, description: 'Number of entries' },
  added: { ...Count, description: 'Entries that were not in the list before' },
  removed: { ...Count, description: 'Entries that are no longer in it' },
})
export type ListStored = Static<typeof ListStored>

const ListBody = Type.Object(
  {
    description: Type.Optional({ ...Description, description: 'For people; default: as before' }),
    entries: Entries('All entries; what is there twice is stored once'),
    version: Type.Integer({ minimum: 0, description: 'Version of the list that is replaced; 0: there is none yet' }),
  },
  { additionalProperties: false },
)
export type ListBody = Static<typeof ListBody>

const EntriesBody = Type.Object(
  {
    add: Type.Optional(Entries('Entries to add; those in the list already stay')),
    remove: Type.Optional(Entries('Entries to remove; those not in the list are passed over')),
  },
  { additionalProperties: false, minProperties: 1 },
)
export type EntriesBody = Static<typeof EntriesBody>

const ListParams = Type.Object({ name: ListName })
const unknown = 'Unknown list'
const refused = 'A rule that uses the list could not run with the entries; the sentence names the rule and the reason'

export const listEndpoints = {
  listLists: define({
    method: 'GET',
    path: '/api/lists',
    access: access.readers,
    teams: 'global',
    feature: 'rules',
    summary: 'List the lists that rules can name, and the rules that use each',
    status: 200,
    reply: AllLists,
  }),
  getList: define({
    method: 'GET',
    path: '/api/lists/:name',
    access: access.readers,
    teams: 'global',
    feature: 'rules',
    summary: 'Get a list with its entries',
    params: ListParams,
    status: 200,
    reply: ListView,
    failures: { 404: unknown },
  }),
  putList: define({
    method: 'PUT',
    path: '/api/lists/:name',
    access: access.operators,
    teams: 'refused',
    feature: 'rules',
    summary: `Create or replace a list, at most ${listLimits.lists}. Rules that use it have the new entries from the next event on`,
    params: ListParams,
    body: ListBody,
    largeBody: true,
    status: 200,
    reply: ListStored,
    failures: { 400: refused, 404: unknown, 409: 'The list has another version than `version`: read it again' },
  }),
  changeListEntries: define({
    method: 'POST',
    path: '/api/lists/:name/entries',
    access: access.operators,
    teams: 'refused',
    feature: 'rules',
    summary: 'Add entries to a list and remove others, whatever else changed in it meanwhile',
    params: ListParams,
    body: EntriesBody,
    largeBody: true,
    status: 200,
    reply: ListStored,
    failures: { 400: refused, 404: unknown, 409: 'A rule that uses the list is being changed: retry' },
  }),
  deleteList: define({
    method: 'DELETE',
    path: '/api/lists/:name',
    access: access.operators,
    teams: 'refused',
    feature: 'rules',
    summary: 'Delete a list that no rule uses',
    params: ListParams,
    status: 200,
    reply: Ok,
    failures: { 404: unknown, 409: 'Rules use the list; the sentence names them' },
  }),
}
