import { join } from 'node:path'
import type { Deps } from '../../deps.ts'
import { writePrivateFile } from '../../secrets.ts'
import { localActor } from '../audit/audit.ts'
import { createKey, listKeys } from './keys.ts'

/**
 * Lets the operator in: where neither WARDLINE_API_KEY nor any key exists, creates an admin key
 * and stores it for this user only. Resolves with the key, once.
 */
export async function ensureAdminKey({ config, database: { db }, clock }: Deps): Promise<string | undefined> {
  if (config.apiKey !== undefined || (await listKeys(db)).length > 0) return undefined
  const { key } = await createKey(db, { scope: 'admin', name: 'first admin' }, localActor('system'), clock.now())
  writePrivateFile(join(config.dataDir, 'admin-key'), `${key}\n`)
  return key
}
