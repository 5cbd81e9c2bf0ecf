import type { Deps } from '../../deps.ts'
import type { Principal } from '../../http/auth.ts'
import { randomSecret } from '../../ids.ts'
import { hashKey } from './key-format.ts'
import type { Keyring } from './keyring.ts'
import { deleteSessionRow, deleteStaleSessions, findSession, insertSession, touchSession } from './queries.ts'

/** A browser left alone is logged out after this long, and in any case after the second. */
const idleMs = 30 * 60_000
const absoluteMs = 12 * 3_600_000
/** Use is written at most this often. */
const touchEveryMs = 60_000

/** Starts a session that acts with the key; the token is random and stored only as a hash. */
export async function startSession(deps: Deps, keyId: string): Promise<{ token: string; expiresAt: number }> {
  const now = deps.clock.now()
  const token = randomSecret(32)
  const expiresAt = now + absoluteMs
  await insertSession(deps.database.db, {
    token_hash: hashKey(token),
    key_id: keyId,
    created_at: now,
    expires_at: expiresAt,
    last_used_at: now,
  })
  return { token, expiresAt }
}

/** The principal of a session; undefined once it ended, was idle too long, or its key is no longer valid. */
export async function findSessionPrincipal(
  deps: Deps,
  keyring: Keyring,
  token: string,
): Promise<Principal | undefined> {
  const tokenHash = hashKey(token)
  const session = await findSession(deps.database.db, tokenHash)
  const now = deps.clock.now()
  if (!session || session.expires_at <= now || now - session.last_used_at > idleMs) return undefined
  if (now - session.last_used_at > touchEveryMs) {
    // A disk that takes no more must not lock out who came to stop the agent that filled it.
    await touchSession(deps.database.db, tokenHash, now).catch((fault) =>
      deps.log.warn({ err: fault }, 'session use not noted'),
    )
  }
  return keyring.findById(session.key_id)
}

export const endSession = (deps: Deps, token: string): Promise<void> =>
  deleteSessionRow(deps.database.db, hashKey(token))

export function forgetStaleSessions(deps: Deps): Promise<void> {
  const now = deps.clock.now()
  return deleteStaleSessions(deps.database.db, now, now - idleMs)
}
