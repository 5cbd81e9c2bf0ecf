import { createHmac } from 'node:crypto'
import type { HoneypotCreated, HoneypotDetail, KeyType, NewHoneypot } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { uuidV7 } from '../../ids.ts'
import { type Actor, recordAction } from '../audit/audit.ts'
import { generateDecoyKey } from './decoy-keys.ts'
import { decoyPathKeys } from './path-forms.ts'
import { isPathPattern, validatePathPattern } from './path-pattern.ts'
import { findHoneypot, insertHoneypot, listHoneypotRows, readHits, removeHoneypot } from './queries.ts'

const notFound = () => new AppError('not_found', 'There is no honeypot with this id.')

/** HMAC-SHA256 of a form of a key or path: whoever reads the database alone learns no decoy. */
export function decoyDigest(kind: 'key' | 'path', form: string, key: Buffer): string {
  return createHmac('sha256', key).update(`${kind}:${form}`).digest('base64url')
}

interface Prepared {
  keyType: KeyType | null
  path: string | null
  isPattern: boolean
  digests: string[]
  /** The decoy key, shown once. */
  value: string | undefined
}

function prepare({ type, keyType, path }: NewHoneypot, key: Buffer): Prepared {
  if (type === 'api_key') {
    if (keyType === undefined) throw new AppError('invalid', 'keyType is required for type api_key.')
    const { value, fingerprintForms } = generateDecoyKey(keyType)
    const digests = fingerprintForms.map((form) => decoyDigest('key', form, key))
    return { keyType, path: null, isPattern: false, digests, value }
  }
  if (path === undefined) throw new AppError('invalid', 'path is required for type file_path.')
  const fault = validatePathPattern(path)
  if (fault) throw new AppError('invalid', `path is refused. ${fault}`)
  const isPattern = isPathPattern(path)
  const digests = isPattern ? [] : decoyPathKeys(path).map((form) => decoyDigest('path', form, key))
  return { keyType: null, path, isPattern, digests: [...new Set(digests)], value: undefined }
}

/** Creates a decoy; the value of a key is in the answer and nowhere else. Throws AppError `invalid`. */
export async function createHoneypot(deps: Deps, request: NewHoneypot, actor: Actor): Promise<HoneypotCreated> {
  const { keyType, path, isPattern, digests, value } = prepare(request, deps.secrets.decoyKey)
  const { type, instanceId, label = null } = request
  const now = deps.clock.now()
  const id = uuidV7(now)
  await deps.database.db.transaction().execute(async (trx) => {
    const row = {
      id,
      instance_id: instanceId,
      type,
      key_type: keyType,
      path,
      is_pattern: isPattern ? (1 as const) : (0 as const),
      label,
      created_at: now,
      deleted_at: null,
    }
    await insertHoneypot(trx, row, digests)
    const after = { type, instance_id: instanceId, key_type: keyType, path, label }
    await recordAction(trx, actor, { action: 'honeypot.create', target: id, before: null, after }, now)
  })
  const kind = keyType === null ? { path: path! } : { keyType }
  return { ok: true, id, type, ...kind, createdAt: isoTime(now), ...(value === undefined ? {} : { key: value }) }
}

/** Removes a decoy; its hits stay. Throws AppError `not_found`. */
export function deleteHoneypot(deps: Deps, id: string, actor: Actor): Promise<void> {
  const now = deps.clock.now()
  return deps.database.db.transaction().execute(async (trx) => {
    const removed = await removeHoneypot(trx, id, now)
    if (!removed) throw notFound()
    await recordAction(trx, actor, { action: 'honeypot.delete', target: id, before: removed, after: null }, now)
  })
}

const keyTypeOf = (keyType: string | null) => (keyType === null ? {} : { keyType: keyType as KeyType })

/** Decoys of one instance or of all, oldest first. */
export async function listHoneypots(db: Db, instanceId: string | undefined) {
  const rows = await listHoneypotRows(db, instanceId)
  return rows.map((row) => ({
    id: row.id,
    type: row.type,
    ...keyTypeOf(row.key_type),
    createdAt: isoTime(Number(row.created_at)),
  }))
}

const shownHits = 100

/** One decoy, removed or not, with its latest hits. Throws AppError `not_found`. */
export async function viewHoneypot(db: Db, id: string): Promise<HoneypotDetail> {
  const row = await findHoneypot(db, id)
  if (!row) throw notFound()
  const { hits, count } = await readHits(db, id, shownHits)
  return {
    id,
    type: row.type,
    ...keyTypeOf(row.key_type),
    ...(row.path === null ? {} : { path: row.path }),
    instanceId: row.instance_id,
    label: row.label,
    createdAt: isoTime(Number(row.created_at)),
    deletedAt: row.deleted_at === null ? null : isoTime(Number(row.deleted_at)),
    hitCount: count,
    hits: hits.map((hit) => ({
      id: hit.id,
      at: isoTime(Number(hit.at)),
      reporter: hit.reporter,
      tool: hit.tool,
      ip_address: hit.ip_address,
      event_id: hit.event_id,
    })),
  }
}
