import { minuteMs } from '../../clock.ts'
import type { Database, Db, Statement } from '../../db/database.ts'
import { randomSecret } from '../../ids.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import { hashKey } from './key-format.ts'
import { findLoginCode, loginCodeStatement, takeLoginCodeStatements } from './queries.ts'

/** Long enough to open the link on another machine, short enough that links in a terminal's history have expired. */
const validMs = 10 * minuteMs

interface LoginCode {
  code: string
  expiresAt: number
}

/** Creates a code for one browser session with the key. It replaces the previous code; only its hash is stored. */
export async function createLoginCode(
  database: Database,
  keyId: string,
  actor: Actor,
  now: number,
): Promise<LoginCode> {
  const code = randomSecret(32)
  const expiresAt = now + validMs
  const action = { action: 'key.login_link', target: keyId, before: null, after: { expires_at: expiresAt } }
  await database.batch([
    loginCodeStatement(database.db, { key_id: keyId, code_hash: hashKey(code), expires_at: expiresAt }),
    ...auditStatements(database, actor, action, now),
  ])
  return { code, expiresAt }
}

/** Returns statements that use up a code. They fail the batch if it was used, replaced or has expired. */
export const redeemStatements = (database: Database, code: string, now: number): Statement[] =>
  takeLoginCodeStatements(database, hashKey(code), now)

/** Resolves with the key of a code; undefined if it was used, replaced, has expired or never existed. */
export const keyOfLoginCode = (db: Db, code: string, now: number): Promise<string | undefined> =>
  findLoginCode(db, hashKey(code), now)

/** Returns the address to open. Browsers do not send the part after #, so the code appears in no proxy log. */
export const loginUrl = (base: string, code: string): string => `${base.replace(/\/+$/, '')}/login#${code}`
