import type { KeyCreated, KeyView, NewKey } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Db, Trx } from '../../db/database.ts'
import { AppError } from '../../errors.ts'
import { type Actor, recordAction } from '../audit/audit.ts'
import { generateKey } from './key-format.ts'
import { expireKeyRow, holdKey, insertKey, type KeyRow, readKeys, revokeKeyRow } from './queries.ts'

/** An old key stays valid this long after its rotation, unless told otherwise. */
const defaultOverlapSeconds = 86_400

const notFound = () => new AppError('not_found', 'There is no key with this id.')

function checkBinding({ scope, instances }: NewKey): string[] {
  if (scope === 'agent' && !instances) throw new AppError('invalid', 'instances is required for scope agent.')
  if (scope !== 'agent' && instances) throw new AppError('invalid', `instances must be absent for scope ${scope}.`)
  return instances ?? []
}

function checkExpiry(expiresAt: string | undefined, now: number): number | null {
  if (expiresAt === undefined) return null
  const time = Date.parse(expiresAt)
  if (!(time > now)) throw new AppError('invalid', 'expires_at must lie in the future.')
  return time
}

type KeyGrant = Pick<KeyRow, 'scope' | 'name' | 'instances' | 'expires_at'>

async function issueKey(trx: Trx, grant: KeyGrant, now: number): Promise<KeyCreated> {
  const { id, key, secretHash } = generateKey(grant.scope)
  await insertKey(trx, { ...grant, id, secret_hash: secretHash, created_at: now, revoked_at: null, last_used_at: null })
  return { ok: true, id, scope: grant.scope, key }
}

/** Creates a key; its text is in the answer and nowhere else. Throws AppError `invalid`. */
export function createKey(db: Db, request: NewKey, actor: Actor, now: number): Promise<KeyCreated> {
  const instances = checkBinding(request)
  const expiresAt = checkExpiry(request.expires_at, now)
  const { scope, name } = request
  return db.transaction().execute(async (trx) => {
    const grant = { scope, name, instances: JSON.stringify(instances), expires_at: expiresAt }
    const created = await issueKey(trx, grant, now)
    const after = { scope, name, instances, expires_at: expiresAt }
    await recordAction(trx, actor, { action: 'key.create', target: created.id, before: null, after }, now)
    return created
  })
}

/** Issues a successor with the same grant; the old key ends after the overlap. Throws AppError `not_found`. */
export function rotateKey(
  db: Db,
  id: string,
  overlapSeconds: number | undefined,
  actor: Actor,
  now: number,
): Promise<KeyCreated> {
  const endsAt = now + (overlapSeconds ?? defaultOverlapSeconds) * 1000
  return db.transaction().execute(async (trx) => {
    const old = await holdKey(trx, id)
    if (!old) throw notFound()
    const { scope, name, instances, expires_at } = old
    const created = await issueKey(trx, { scope, name, instances, expires_at }, now)
    await expireKeyRow(trx, id, endsAt)
    const after = { successor: created.id, expires_at: endsAt }
    await recordAction(trx, actor, { action: 'key.rotate', target: id, before: { expires_at }, after }, now)
    return created
  })
}

/** Revokes a key for good. Throws AppError `not_found` when it is unknown or revoked already. */
export function revokeKey(db: Db, id: string, actor: Actor, now: number): Promise<void> {
  return db.transaction().execute(async (trx) => {
    if (!(await revokeKeyRow(trx, id, now))) throw notFound()
    const change = { before: { revoked_at: null }, after: { revoked_at: now } }
    await recordAction(trx, actor, { action: 'key.revoke', target: id, ...change }, now)
  })
}

const timeOrNull = (epochMs: number | null) => (epochMs === null ? null : isoTime(Number(epochMs)))

export async function listKeys(db: Db): Promise<KeyView[]> {
  const rows = await readKeys(db)
  return rows.map((row) => ({
    id: row.id,
    scope: row.scope,
    name: row.name,
    instances: JSON.parse(row.instances),
    created_at: isoTime(Number(row.created_at)),
    expires_at: timeOrNull(row.expires_at),
    revoked_at: timeOrNull(row.revoked_at),
    last_used_at: timeOrNull(row.last_used_at),
  }))
}
