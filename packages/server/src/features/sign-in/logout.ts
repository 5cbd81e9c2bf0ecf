import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { unseal } from '../../sealed.ts'
import { auditStatements, localActor } from '../audit/audit.ts'
import { hashKey } from '../keys/key-format.ts'
import { endSessionStatement, findSessionById, readSessionsToEnd, sessionId } from '../keys/session-statements.ts'
import { personId } from '../people/people.ts'
import { type Provider, toleranceSeconds } from './provider.ts'
import type { StoredTokens } from './sign-in.ts'

const actor = localActor('system')

export type Logout = ReturnType<typeof createLogout>

/** Ends sessions here when they end at the provider, and the other way round. */
export function createLogout(
  { database, clock, secrets, log }: Deps,
  { provider }: { provider: Provider | undefined },
) {
  return {
    /**
     * Returns what finds the address that ends the session of this token at the provider, after it has ended here.
     * Undefined for keys.
     */
    async prepare(token: string): Promise<(() => Promise<string | undefined>) | undefined> {
      const row = provider && (await findSessionById(database.db, hashKey(token)))
      if (!row || row.sealed === null) return undefined
      const { sealed } = row
      return async () => {
        try {
          const { id } = unseal<StoredTokens>(sessionId(row), sealed, secrets.signInKey)
          return id === undefined ? undefined : await provider.logoutUrl(id)
        } catch (fault) {
          log.warn({ err: fault }, 'a person was not signed out at the provider')
          return undefined
        }
      }
    },

    /**
     * Ends the sessions that a logout token names and that began before it: sent again, it ends nothing more. Resolves with
     * whether there were any. Rejects with AppError.
     */
    async byToken(token: string): Promise<boolean> {
      if (!provider) throw new AppError('conflict', 'No provider is configured: set WARDLINE_OIDC_ISSUER.')
      const { subject, providerSession, issuedAt } = await provider.verifyLogout(token)
      const person = subject === undefined ? undefined : personId(provider.settings.issuer, subject)
      // The time is in whole seconds, and of another clock.
      const before = issuedAt + (1 + toleranceSeconds) * 1_000
      const ended = await readSessionsToEnd(database.db, { person, providerSession, before })
      if (ended.length === 0) return false
      const action = {
        action: 'session.end',
        target: ended[0]!.key_id,
        before: null,
        after: { sessions: ended.length },
        reason: 'the person signed out at the provider',
      }
      await database.batch([
        ...ended.map(({ token_hash }) => endSessionStatement(database.db, token_hash)),
        ...auditStatements(database, actor, action, clock.now()),
      ])
      log.info({ person: ended[0]!.key_id, sessions: ended.length }, 'sessions ended by the provider')
      return true
    },
  }
}
