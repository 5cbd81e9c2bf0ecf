import { minuteMs } from '../../clock.ts'
import type { Database, Db } from '../../db/database.ts'
import { randomSecret } from '../../ids.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import { hashKey } from './key-format.ts'
import { loginCodeStatement, takeLoginCode } from './queries.ts'

/** Long enough to open the link on another machine, short enough that one in a terminal's history opens nothing. */
const validMs = 10 * minuteMs

interface LoginCode {
  code: string
  expiresAt: number
}

/** A code that opens one browser session with the key; the last one of the key ends. Stored only as a hash. */
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

/** Uses up a code; resolves with its key, undefined when it was used, replaced, has expired or was never issued. */
export const redeemLoginCode = (db: Db, code: string, now: number): Promise<string | undefined> =>
  takeLoginCode(db, hashKey(code), now)

/** The address that the browser opens. What follows # is sent to no server, and stands in no log of a proxy. */
export const loginUrl = (base: string, code: string): string => `${base.replace(/\/+$/, '')}/login#${code}`
