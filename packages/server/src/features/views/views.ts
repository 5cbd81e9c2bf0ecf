import { limits, type NewView, type SavedView } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Database, Db, Trx } from '../../db/database.ts'
import { AppError } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import { uuidV7 } from '../../ids.ts'
import { type Action, type Actor, recordAction } from '../audit/audit.ts'
import { keyNames } from '../keys/key-names.ts'
import { findView, insertView, readViews, removeView, updateView, type ViewRow } from './queries.ts'

/** Arguments of every change of a view. */
interface Changing {
  database: Database
  principal: Principal
  actor: Actor
  now: number
}

/**
 * Whose views are the caller's: the owner's and not the key's, because a key keeps its owner when it is rotated. A key
 * limited to a team has its own, because the views of the person who made it may name agents of others.
 */
const ownerOf = ({ keyId, team, person, registers }: Principal): string => (team && !person ? keyId : registers.owner)
const isOwn = (row: ViewRow, principal: Principal): boolean => row.owner === ownerOf(principal)

const notFound = () => new AppError('not_found', 'Unknown view; GET /api/views lists the existing ones.')

const stateOf = ({ name, screen, query, shared }: ViewRow) => ({ name, screen, query, shared: shared === 1 })

function columnsOf({ name, screen, query, shared = false }: NewView, { scope }: Principal) {
  if (shared && (scope === 'viewer' || scope === 'approver')) {
    throw new AppError('forbidden', `The scope ${scope} does not allow shared views: leave shared out.`)
  }
  return { name, screen, query, shared: shared ? (1 as const) : (0 as const) }
}

export async function listViews(db: Db, principal: Principal): Promise<SavedView[]> {
  const rows = await readViews(db)
  const seen = rows.filter((row) => row.shared === 1 || isOwn(row, principal) || principal.scope === 'admin')
  const names = await keyNames.names(
    db,
    seen.map(({ owner }) => owner),
  )
  return seen.map((row) => ({
    id: row.id,
    ...stateOf(row),
    owner: names.get(row.owner) ?? row.owner,
    own: isOwn(row, principal),
    created_at: isoTime(row.created_at),
    changed_at: isoTime(row.changed_at),
  }))
}

/** Writes the audit entry first: its lock serializes changes, so that concurrent ones do not exceed the limits. */
function change({ database, actor, now }: Changing, action: Action, work: (trx: Trx) => Promise<void>): Promise<void> {
  return database.db.transaction().execute(async (trx) => {
    await recordAction(database, trx, actor, action, now)
    await work(trx)
  })
}

/** Returns the id. Throws AppError `invalid` if a limit is reached, or `forbidden`. */
export async function createView(changing: Changing, request: NewView): Promise<string> {
  const { principal, now } = changing
  const owner = ownerOf(principal)
  const times = { created_at: now, changed_at: now }
  const row: ViewRow = { id: uuidV7(now), owner, ...columnsOf(request, principal), ...times }
  await change(changing, { action: 'view.create', target: row.id, before: null, after: stateOf(row) }, async (trx) => {
    const known = await readViews(trx)
    if (known.length >= limits.views) {
      throw new AppError('invalid', `There are ${limits.views} views, the maximum: delete one first.`)
    }
    if (known.filter((view) => view.owner === owner).length >= limits.viewsOfKey) {
      throw new AppError('invalid', `This key has ${limits.viewsOfKey} views, the maximum: delete one first.`)
    }
    await insertView(trx, row)
  })
  return row.id
}

/** Returns a view that the caller may change. Throws AppError `not_found` for one it does not see, else `forbidden`. */
async function findOwn(db: Db, id: string, principal: Principal): Promise<ViewRow> {
  const row = await findView(db, id)
  if (row && (isOwn(row, principal) || principal.scope === 'admin')) return row
  if (row?.shared === 1) throw new AppError('forbidden', 'Only its owner or scope admin may change this view.')
  throw notFound()
}

/** Throws AppError `not_found` or `forbidden`. */
export async function replaceView(changing: Changing, id: string, request: NewView): Promise<void> {
  const { database, principal, now } = changing
  const old = await findOwn(database.db, id, principal)
  const row = { ...old, ...columnsOf(request, principal), changed_at: now }
  const action = { action: 'view.change', target: id, before: stateOf(old), after: stateOf(row) }
  await change(changing, action, async (trx) => {
    if (!(await findView(trx, id))) throw notFound()
    const { owner: _owner, created_at: _createdAt, ...columns } = row
    await updateView(trx, columns)
  })
}

/** Throws AppError `not_found` or `forbidden`. */
export async function deleteView(changing: Changing, id: string): Promise<void> {
  const { database, principal } = changing
  const old = await findOwn(database.db, id, principal)
  const action = { action: 'view.delete', target: id, before: stateOf(old), after: null }
  await change(changing, action, async (trx) => {
    if (!(await findView(trx, id))) throw notFound()
    await removeView(trx, id)
  })
}
