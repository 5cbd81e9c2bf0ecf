import { join } from 'node:path'
import type { Db, Trx } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import type { Principal } from '../../http/auth.ts'
import { writePrivateFile } from '../../secrets.ts'
import { localActor, recordAction } from '../audit/audit.ts'
import { configuredKeyPrefix, generateKey } from './key-format.ts'
import { insertKeyStatement, readKeys } from './queries.ts'

interface FirstKey {
  id: string
  key: string
}

/** Only the first startup gives it: it marks the key that works in an emergency. */
export const firstKeyName = 'first admin'

/** Returns the ids of the key that the first startup created, and of its successors. */
export async function localAdminIds(db: Db): Promise<string[]> {
  return (await readKeys(db))
    .filter(({ name, scope }) => name === firstKeyName && scope === 'admin')
    .map(({ id }) => id)
}

/** Whether it is the admin key of this machine: WARDLINE_API_KEY, or the key that the first startup created; or its passkey. */
export const isLocalAdmin = ({ keyId, name, scope, passkey }: Principal): boolean =>
  passkey === true || keyId.startsWith(configuredKeyPrefix) || (scope === 'admin' && name === firstKeyName)

/** Rolls back the transaction if another process has created a key first. */
const notFirst = new Error('Another process has created a key.')

/**
 * Several processes may start at the same time. The audit entry is written first because it serializes them: the second
 * process waits for it and then sees the key of the first. The file is written before the commit: a machine that fails
 * in between leaves a file that the next start replaces, and never a database whose only key nobody knows.
 */
async function createFirstKey({ config, database }: Deps, trx: Trx, now: number): Promise<FirstKey> {
  const { id, key, secretHash } = generateKey('admin')
  const grant = { scope: 'admin' as const, name: firstKeyName, expires_at: null }
  const after = { ...grant, instances: [] }
  const action = { action: 'key.create', target: id, before: null, after }
  await recordAction(database, trx, localActor('system'), action, now)
  if ((await readKeys(trx)).length > 0) throw notFirst
  const times = { created_at: now, revoked_at: null, last_used_at: null }
  const row = {
    ...grant,
    ...times,
    id,
    instances: '[]',
    secret_hash: secretHash,
    quotas: null,
    max_instances: null,
    tags: null,
    approves: null,
    team: null,
    models: null,
    supervises: null,
    owner: null,
  }
  await trx.executeQuery(insertKeyStatement(trx, row))
  writePrivateFile(join(config.dataDir, 'admin-key'), `${key}\n`)
  return { id, key }
}

/**
 * Creates an admin key if neither WARDLINE_API_KEY nor any key exists, and stores it in a file that only this user can
 * read. Resolves with undefined if no key was created.
 */
export async function ensureAdminKey(deps: Deps): Promise<FirstKey | undefined> {
  const { config, database, clock } = deps
  if (config.apiKey !== undefined || (await readKeys(database.db)).length > 0) return undefined
  try {
    return await database.db.transaction().execute((trx) => createFirstKey(deps, trx, clock.now()))
  } catch (fault) {
    if (fault === notFirst) return undefined
    throw fault
  }
}
