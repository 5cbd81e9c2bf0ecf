import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { choice, Instant, limits, NotBlank, nullable, Pattern, Timestamp, Uuid } from './fields.ts'
import { Type } from './type.ts'

/** The instance of a decoy. */
export const DecoyInstance = nullable(
  Type.String({ description: 'The instance where it is planted; null for a path that is a decoy for every agent' }),
)

/** Issued: created; planted: a person recorded where; tripped: touched; retired: replaced or deleted. */
export const decoyStates = ['issued', 'planted', 'tripped', 'retired'] as const
export type DecoyState = (typeof decoyStates)[number]

/** The form in which a touched decoy appeared in the checked text; `reported`: in a tool call that was not checked. */
export const hitForms = [
  'bare',
  'env',
  'header',
  'url',
  'json',
  'text',
  'case',
  'base64',
  'hex',
  'percent',
  'reversed',
  'encoded',
  'path',
  'pattern',
  'folder',
  'glob',
  'reported',
] as const
export type HitForm = (typeof hitForms)[number]

const PlantedNote = Type.Object({
  at: Timestamp,
  by: Type.String({ description: 'Name of the key that noted it' }),
  note: Type.String(),
  file: nullable(Type.String({ description: 'The file that holds the decoy' })),
})

export const inventory = {
  state: choice(decoyStates, 'issued, planted, tripped (touched), or retired (replaced or deleted)'),
  planted: nullable(PlantedNote),
  leaked_outside: Type.Boolean({ description: 'Whether an instance other than the one it was planted for touched it' }),
  retired_at: nullable(Timestamp),
  replaced_by: nullable(Uuid),
}

const Planting = Type.Object(
  {
    note: NotBlank({ maxLength: limits.reason, description: 'Where it is planted; never the decoy itself' }),
    file: Type.Optional(NotBlank({ maxLength: limits.decoyPath, description: 'The file that holds it' })),
  },
  { additionalProperties: false },
)
export type Planting = Static<typeof Planting>

const TestHit = Type.Object({ ok: Type.Literal(true), id: Uuid, event_id: Uuid })

const tool = Pattern(
  '^[A-Za-z0-9_.:/ -]{1,24}$',
  'may contain only letters, digits, spaces and _ . : / -, at most 24',
  {
    description: 'The exact name of the tool, as hits show it',
    examples: ['backup'],
  },
)
const NewDecoyIgnore = Type.Object(
  {
    tool,
    reason: NotBlank({ maxLength: limits.reason }),
    until: Instant('When the rule ends: in the future, at most 90 days away'),
  },
  { additionalProperties: false },
)
export type NewDecoyIgnore = Static<typeof NewDecoyIgnore>
const DecoyIgnore = Type.Object({
  id: Uuid,
  tool: Type.String(),
  reason: Type.String(),
  until: Timestamp,
  created_at: Timestamp,
  created_by: Type.String({ description: 'Name of the key that made it' }),
})
export type DecoyIgnore = Static<typeof DecoyIgnore>
const DecoyIgnoreList = Type.Object({ ignores: Type.Array(DecoyIgnore, { maxItems: limits.decoyIgnores }) })
const DecoyIgnoreCreated = Type.Object({ ok: Type.Literal(true), id: Uuid })

const DecoyAllowList = Type.Object({
  paths: Type.Array(Type.Object({ id: Uuid, instanceId: DecoyInstance, path: Type.String() }), {
    description: 'Files that hold decoys: paths of path decoys, and files that were noted when keys were planted',
  }),
  unplaced: Type.Array(Uuid, { description: 'Decoy keys of which no file is noted: a scanner will report them' }),
})
export type DecoyAllowList = Static<typeof DecoyAllowList>

const DecoyParams = Type.Object({ id: Uuid })
const DecoyChanged = Type.Object({ ok: Type.Literal(true), id: Uuid })

/** Endpoints for the notes that people keep on decoys, and for exceptions. */
export const decoyInventoryEndpoints = {
  exportDecoyAllowList: define({
    method: 'GET',
    path: '/api/honeypots/allow-list',
    access: access.operators,
    teams: 'refused',
    feature: 'honeypots',
    summary: 'Export the files that hold decoys, for secret scanners; never values, which the service does not hold',
    status: 200,
    reply: DecoyAllowList,
  }),
  listDecoyIgnores: define({
    method: 'GET',
    path: '/api/honeypots/ignores',
    access: access.readers,
    teams: 'refused',
    feature: 'honeypots',
    summary: 'List ignore rules: tools whose hits are counted without a breach alert',
    status: 200,
    reply: DecoyIgnoreList,
  }),
  createDecoyIgnore: define({
    method: 'POST',
    path: '/api/honeypots/ignores',
    access: access.operators,
    teams: 'refused',
    feature: 'honeypots',
    summary: `Ignore hits of a tool until a time; at most ${limits.decoyIgnores} rules`,
    body: NewDecoyIgnore,
    status: 201,
    reply: DecoyIgnoreCreated,
  }),
  deleteDecoyIgnore: define({
    method: 'DELETE',
    path: '/api/honeypots/ignores/:id',
    access: access.operators,
    teams: 'refused',
    feature: 'honeypots',
    summary: 'End an ignore rule',
    params: DecoyParams,
    status: 200,
    reply: DecoyChanged,
    failures: { 404: 'Unknown ignore rule' },
  }),
  noteDecoyPlanted: define({
    method: 'POST',
    path: '/api/honeypots/:id/planted',
    access: access.operators,
    teams: 'agents',
    feature: 'honeypots',
    summary: 'Note where a decoy is planted; the time and the key that notes it are recorded',
    params: DecoyParams,
    body: Planting,
    status: 200,
    reply: DecoyChanged,
    failures: { 404: 'Unknown or deleted honeypot' },
  }),
  testDecoy: define({
    method: 'POST',
    path: '/api/honeypots/:id/test',
    access: access.operators,
    teams: 'agents',
    feature: 'honeypots',
    summary: 'Record a test hit: event and alert as for a real one, marked as a test; suspends nobody',
    params: DecoyParams,
    status: 201,
    reply: TestHit,
    failures: { 404: 'Unknown or deleted honeypot' },
  }),
}
