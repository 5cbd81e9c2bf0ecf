import { type DecoyIgnore, limits, type NewDecoyIgnore } from '@wardline/contract'
import { dayMs, isoTime } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import { changeGuarded } from '../../db/guarded-change.ts'
import type { Deps } from '../../deps.ts'
import { AppError, unknownId } from '../../errors.ts'
import { uuidV7 } from '../../ids.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import { findIgnore, insertIgnore, readIgnores, removeIgnore } from './ignore-queries.ts'

/** Maximum duration. A forgotten exception can hide an attack, so a person must renew it each quarter. */
const maxDays = 90

export async function listIgnores(db: Db, now: number): Promise<DecoyIgnore[]> {
  const rows = await readIgnores(db, now)
  return rows.map(({ id, tool, reason, until_at, created_at, created_by }) => ({
    id,
    tool,
    reason,
    until: isoTime(until_at),
    created_at: isoTime(created_at),
    created_by,
  }))
}

/** Returns the id. Throws AppError `invalid`. */
export async function createIgnore(
  deps: Deps,
  protection: ProtectionAlerts,
  request: NewDecoyIgnore,
  actor: Actor,
): Promise<string> {
  const { database, clock } = deps
  const now = clock.now()
  const until = Date.parse(request.until)
  if (Number.isNaN(until) || until <= now || until > now + maxDays * dayMs) {
    throw new AppError('invalid', `until must be in the future, at most ${maxDays} days away.`)
  }
  const { tool, reason } = request
  if ((await listIgnores(database.db, now)).length >= limits.decoyIgnores) {
    throw new AppError('invalid', `There are ${limits.decoyIgnores} ignore rules, the maximum: delete one first.`)
  }
  const id = uuidV7(now)
  const row = { id, tool, reason, until_at: until, created_at: now, created_by: actor.name }
  const action = { action: 'decoy_ignore.create', target: id, before: null, after: { tool, reason, until_at: until } }
  await database.batch([
    ...insertIgnore(database.db, row),
    ...protection.statements(actor, action, now),
    ...auditStatements(database, actor, action, now),
  ])
  return id
}

/** Throws AppError `not_found`. */
export function deleteIgnore(deps: Deps, id: string, actor: Actor): Promise<void> {
  const { database, clock } = deps
  return changeGuarded(database, async () => {
    const now = clock.now()
    const row = await findIgnore(database.db, id, now)
    if (!row) throw unknownId('ignore rule', id, 'wardline decoys ignores')
    const before = { tool: row.tool, reason: row.reason, until_at: row.until_at }
    const action = { action: 'decoy_ignore.delete', target: id, before, after: null }
    const statements = [...removeIgnore(database, id), ...auditStatements(database, actor, action, now)]
    return { statements, result: () => {} }
  })
}
