import type { DecoyAllowList, DecoyState, KeyType, Planting, Rotated } from '@wardline/contract'
import { isoTime, isoTimeOrNull } from '../../clock.ts'
import type { Db, Statement } from '../../db/database.ts'
import { changeGuarded } from '../../db/guarded-change.ts'
import type { Team } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { AppError, unknownId } from '../../errors.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import type { Ingest } from '../events/ingest.ts'
import { instanceOf } from './decoy-scope.ts'
import { describeTest } from './hit-event.ts'
import {
  findHoneypot,
  type HoneypotRow,
  hitStatements,
  type inventoryColumns,
  readPlacedDecoys,
  updateHoneypot,
} from './queries.ts'

/** Who changes a decoy. `team`: only decoys of its agents exist for the caller. */
export interface Asking {
  actor: Actor
  team: Team
}

export const notFound = (id: string) => unknownId('honeypot', id, 'wardline decoys list')

type Inventoried = Pick<HoneypotRow, (typeof inventoryColumns)[number]>

function stateOf(row: Inventoried): DecoyState {
  if (row.retired_at !== null || row.deleted_at !== null) return 'retired'
  if (row.tripped_at !== null) return 'tripped'
  return row.planted_at === null ? 'issued' : 'planted'
}

export const inventoryOf = (row: Inventoried) => ({
  state: stateOf(row),
  planted:
    row.planted_at === null
      ? null
      : {
          at: isoTime(row.planted_at),
          by: row.planted_by ?? '',
          note: row.planted_note ?? '',
          file: row.planted_file,
        },
  leaked_outside: row.leaked_at !== null,
  retired_at: isoTimeOrNull(row.retired_at ?? row.deleted_at),
  replaced_by: row.replaced_by,
})

/** Throws AppError `not_found` if the decoy is unknown or deleted. */
async function findLive(db: Db, id: string, team: Team): Promise<HoneypotRow> {
  const row = await findHoneypot(db, id, team)
  if (!row || row.deleted_at !== null) throw notFound(id)
  return row
}

/** Refuses a note that contains the decoy itself, which would store its value. Throws AppError `invalid`, or `not_found`. */
export async function notePlanted(
  deps: Deps,
  id: string,
  { note, file }: Planting,
  { actor, team }: Asking,
  holdsDecoy: (text: string) => Promise<boolean>,
): Promise<void> {
  const { database, clock } = deps
  for (const [field, text] of [
    ['note', note],
    ['file', file ?? ''],
  ] as const) {
    if (text !== '' && (await holdsDecoy(text))) {
      throw new AppError('invalid', `${field} must not contain a decoy key: write where it is planted.`)
    }
  }
  return changeGuarded(database, async () => {
    const row = await findLive(database.db, id, team)
    const now = clock.now()
    const before = { planted_at: row.planted_at, note: row.planted_note, file: row.planted_file }
    const action = {
      action: 'honeypot.planted',
      target: id,
      before,
      after: { planted_at: now, note, file: file ?? null },
    }
    const planted = { planted_at: now, planted_by: actor.name, planted_note: note, planted_file: file ?? null }
    const statements = [...updateHoneypot(database, id, planted), ...auditStatements(database, actor, action, now)]
    return { statements, result: () => {} }
  })
}

interface NewKey {
  id: string
  value: string
  statements: Statement[]
}

/**
 * Replaces a decoy key. The old value keeps its fingerprints, so that a copy taken earlier is still detected, by the id of
 * the old decoy. Throws AppError `invalid`, or `not_found`.
 */
export function rotateDecoy(
  deps: Deps,
  id: string,
  { actor, team }: Asking,
  create: (old: HoneypotRow & { key_type: string }, now: number) => NewKey,
): Promise<Rotated> {
  const { database, clock } = deps
  return changeGuarded(database, async () => {
    const row = await findLive(database.db, id, team)
    const { key_type } = row
    if (key_type === null) throw new AppError('invalid', 'Only decoy keys are rotated: create another path instead.')
    if (row.retired_at !== null) {
      throw new AppError('invalid', `This decoy is retired: rotate its successor ${row.replaced_by}.`)
    }
    const now = clock.now()
    const created = create({ ...row, key_type }, now)
    const after = { replaced_by: created.id }
    const action = { action: 'honeypot.rotate', target: id, before: null, after }
    const retired = { retired_at: now, replaced_by: created.id }
    const statements = [
      ...updateHoneypot(database, id, retired, true),
      ...created.statements,
      ...auditStatements(database, actor, action, now),
    ]
    const result = (): Rotated => ({
      ok: true,
      id: created.id,
      replaces: id,
      keyType: key_type as KeyType,
      createdAt: isoTime(now),
      key: created.value,
    })
    return { statements, result }
  })
}

/** Records a test hit; resolves with the id of its event. Throws AppError `not_found`. */
export async function testDecoy(deps: Deps, ingest: Ingest, id: string, { actor, team }: Asking): Promise<string> {
  const { database, clock } = deps
  const decoy = await findLive(database.db, id, team)
  const now = clock.now()
  const { event, hit } = describeTest(ingest, decoy, actor.keyId, now, actor.ip)
  const action = { action: 'honeypot.test', target: id, before: null, after: { event_id: event.id } }
  await database.batch(auditStatements(database, actor, action, now))
  await ingest.store([event], { also: hitStatements(database.db, hit, decoy), keyId: actor.keyId, isDecoyHit: true })
  return event.id
}

/** Lists files that contain decoys. Values cannot be listed, because the service only has their HMACs. */
export async function exportAllowList(db: Db): Promise<DecoyAllowList> {
  const rows = await readPlacedDecoys(db)
  const placed = rows.flatMap(({ id, instance_id, path, planted_file }) => {
    const file = path ?? planted_file
    return file === null ? [] : [{ id, instanceId: instanceOf(instance_id), path: file }]
  })
  const unplaced = rows.filter(({ path, planted_file }) => path === null && planted_file === null)
  return { paths: placed, unplaced: unplaced.map(({ id }) => id) }
}
