import { join } from 'node:path'
import type { Trx } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { writePrivateFile } from '../../secrets.ts'
import { localActor, recordAction } from '../audit/audit.ts'
import { generateKey } from './key-format.ts'
import { insertKey, readKeys } from './queries.ts'

/** Undoes the transaction of a process that was not the first one. */
const notFirst = new Error('Another process has created a key.')

/**
 * Several processes may start together: the entry in the audit log makes each wait for the one before it, so that it
 * then sees whether there is a key.
 */
async function createFirstKey(trx: Trx, now: number): Promise<string> {
  const { id, key, secretHash } = generateKey('admin')
  const grant = { scope: 'admin' as const, name: 'first admin', expires_at: null }
  const after = { ...grant, instances: [] }
  await recordAction(trx, localActor('system'), { action: 'key.create', target: id, before: null, after }, now)
  if ((await readKeys(trx)).length > 0) throw notFirst
  const times = { created_at: now, revoked_at: null, last_used_at: null }
  await insertKey(trx, { ...grant, ...times, id, instances: '[]', secret_hash: secretHash })
  return key
}

/**
 * Lets the operator in: where neither WARDLINE_API_KEY nor any key exists, creates an admin key
 * and stores it for this user only. Resolves with the key, once.
 */
export async function ensureAdminKey({ config, database: { db }, clock }: Deps): Promise<string | undefined> {
  if (config.apiKey !== undefined || (await readKeys(db)).length > 0) return undefined
  try {
    const key = await db.transaction().execute((trx) => createFirstKey(trx, clock.now()))
    writePrivateFile(join(config.dataDir, 'admin-key'), `${key}\n`)
    return key
  } catch (fault) {
    if (fault === notFirst) return undefined
    throw fault
  }
}
