import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { unseal } from '../../sealed.ts'
import { auditStatements, localActor } from '../audit/audit.ts'
import { hashKey } from '../keys/key-format.ts'
import {
  endProviderSessionStatement,
  endSessionsStatement,
  findSessionById,
  sessionId,
} from '../keys/session-statements.ts'
import { personId } from '../people/people.ts'
import type { Provider } from './provider.ts'
import type { StoredTokens } from './sign-in.ts'

const actor = localActor('system')

export type Logout = ReturnType<typeof createLogout>

/** Ends sessions here when they end at the provider, and the other way round. */
export function createLogout(
  { database, clock, secrets, log }: Deps,
  { provider }: { provider: Provider | undefined },
) {
  return {
    /** Returns the address that ends the session of this token at the provider; undefined for keys. */
    async urlOf(token: string): Promise<string | undefined> {
      if (!provider) return undefined
      const row = await findSessionById(database.db, hashKey(token))
      if (!row || row.sealed === null) return undefined
      const { id } = unseal<StoredTokens>(sessionId(row), row.sealed, secrets.signInKey)
      return id === undefined ? undefined : provider.logoutUrl(id)
    },

    /**
     * Ends the sessions that a logout token names and that began before it: sent again, it ends nothing more. Rejects with
     * AppError.
     */
    async byToken(token: string): Promise<void> {
      if (!provider) throw new AppError('conflict', 'No provider is configured: set WARDLINE_OIDC_ISSUER.')
      const { subject, providerSession, issuedAt } = await provider.verifyLogout(token)
      // The time is in whole seconds.
      const before = issuedAt + 1_000
      const person = subject === undefined ? undefined : personId(provider.settings.issuer, subject)
      const statement =
        providerSession === undefined
          ? endSessionsStatement(database.db, person!, before)
          : endProviderSessionStatement(database.db, providerSession, before)
      const action = {
        action: 'session.end',
        target: person ?? null,
        before: null,
        after: null,
        reason: 'the person signed out at the provider',
      }
      await database.batch([statement, ...auditStatements(database, actor, action, clock.now())])
      log.info({ person }, 'sessions ended by the provider')
    },
  }
}
