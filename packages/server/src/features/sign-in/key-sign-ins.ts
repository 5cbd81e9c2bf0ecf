import { eventTypes } from '@wardline/contract'
import { isFactKnown } from '../../db/facts.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import type { Actor } from '../audit/audit.ts'
import type { Ingest, PreparedEvents } from '../events/ingest.ts'
import { isLocalAdmin } from '../keys/bootstrap.ts'
import type { KeySignIns } from '../keys/sessions.ts'
import { hasAdmin } from '../people/person-statements.ts'
import { providerSettings } from './provider.ts'

/** Decides whether a key may open a session beside people, and reports when the local admin key does. */
export function createKeySignIns(
  { database, config, clock }: Pick<Deps, 'database' | 'config' | 'clock'>,
  { ingest }: { ingest: Pick<Ingest, 'own' | 'prepare'> },
): KeySignIns {
  const settings = providerSettings(config)
  return {
    async admit(principal: Principal, actor: Actor): Promise<PreparedEvents | undefined> {
      if (!settings) return undefined
      if (!isLocalAdmin(principal)) {
        if (!(await isFactKnown(database.db, 'people_only'))) return undefined
        throw new AppError(
          'forbidden',
          `Only people sign in here, at ${settings.name}: this key works in programs, and the local admin key in an emergency.`,
        )
      }
      // Until an admin could sign in instead, the key is how a service is set up.
      if (!(await hasAdmin(database.db, settings.issuer, clock.now()))) return undefined
      return ingest.prepare([
        ingest.own({
          severity: 'critical',
          event_type: eventTypes.adminKeySignIn,
          description: `${principal.passkey ? 'A passkey of the local admin' : 'The local admin key'} (${principal.name}) opened a session, although people sign in at ${settings.name}`,
          ...(actor.ip === null ? {} : { ip_address: actor.ip }),
          metadata: { key_id: principal.keyId },
        }),
      ])
    },
  }
}
