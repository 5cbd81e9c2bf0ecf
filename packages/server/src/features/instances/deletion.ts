import { dayMs } from '../../clock.ts'
import type { Database } from '../../db/database.ts'
import { changeGuarded } from '../../db/guarded-change.ts'
import { inPortions } from '../../db/portions.ts'
import type { Deps } from '../../deps.ts'
import { AppError, unknownInstance } from '../../errors.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import { findParentAbove } from './parent-queries.ts'
import { deleteSeenOnce, deletionStatements, findInstance, findSeenOnce } from './queries.ts'

/**
 * Deletes an instance; its events stay. A suspended instance must be resumed first, since deletion would lift its
 * suspension. One between a parent and children stays, since these would no longer be suspended with its parent.
 * Throws AppError `not_found`, `suspended` or `conflict`.
 */
export function deleteInstance(
  database: Database,
  protection: ProtectionAlerts,
  id: string,
  actor: Actor,
  now: number,
): Promise<void> {
  return changeGuarded(database, async () => {
    const row = await findInstance(database.db, id)
    if (!row) throw unknownInstance(id)
    if (row.suspended) throw new AppError('suspended', 'The instance is suspended: resume it before you delete it.')
    const above = await findParentAbove(database.db, id)
    if (above !== undefined) {
      const why = `The instance has a parent and children, which would no longer stop with ${above}`
      throw new AppError('conflict', `${why}: delete its children first.`)
    }
    const version = row.control_version
    const before = { name: row.name, version }
    const action = { action: 'instance.delete', target: id, before, after: null }
    return {
      statements: [
        ...deletionStatements(database, id, version, now),
        ...protection.statements(actor, action, now),
        ...auditStatements(database, actor, action, now),
      ],
      result: () => undefined,
    }
  })
}

/** Periodic job: deletes instances that sent a single heartbeat long ago, as scans and attackers leave behind. */
export async function forgetInstances(
  { config, database: { db }, clock }: Deps,
  stopping?: AbortSignal,
): Promise<void> {
  const cutoff = clock.now() - config.forgetInstancesDays * dayMs
  // No index finds them, so each portion continues where the last one ended.
  let after = ''
  await inPortions(async (limit) => {
    const ids = await findSeenOnce(db, cutoff, after, limit)
    if (ids.length > 0) await deleteSeenOnce(db, ids, clock.now())
    after = ids.at(-1) ?? after
    return ids.length
  }, stopping)
}
