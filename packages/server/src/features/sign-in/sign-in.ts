import type { SignIn } from '@wardline/contract'
import { hourMs, minuteMs } from '../../clock.ts'
import type { Statement } from '../../db/database.ts'
import { factStatement, isFactKnown } from '../../db/facts.ts'
import type { Deps } from '../../deps.ts'
import { AppError, DatabaseError } from '../../errors.ts'
import { addressGroup } from '../../http/address-group.ts'
import { randomSecret } from '../../ids.ts'
import { seal, unseal } from '../../sealed.ts'
import { spend, TokenBuckets, waitFor } from '../../token-bucket.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import { hashKey, sameHash } from '../keys/key-format.ts'
import { endSessionsStatement } from '../keys/session-statements.ts'
import { type PersonSession, prepareSession } from '../keys/sessions.ts'
import { personRow, principalOf } from '../people/people.ts'
import { hasAdmin, type PersonRow, personStatement } from '../people/person-statements.ts'
import type { RoleTable } from '../people/role-mappings.ts'
import { describe, type Granted, refusalOf, roleOf } from '../people/roles.ts'
import type { Answer, Attempt, Provider } from './provider.ts'
import { countSignIns, findSignIn, insertSignInStatement, takeSignInStatements } from './queries.ts'

/** Time to sign in at the provider, with a second factor that has to be found first. */
const attemptMs = 10 * minuteMs
/** Attempts in progress: 4 MB of rows. Far more than people sign in at the same time. */
const maxAttempts = 10_000
/** Attempts of one address: an office behind one address in the morning, and then one a second. */
const burst = 100
const msPerAttempt = 1_000
const maxAddresses = 10_000
/** How often the provider is asked for the groups of a person with an open session. */
export const evaluateEveryMs = 10 * minuteMs
/** How long a session lives without a new evaluation: while the provider is away, or because it gave no refresh token. */
export const unevaluatedMs = hourMs

/** Tokens of the provider, stored encrypted with the session. */
export interface StoredTokens {
  refresh: string | undefined
  id: string | undefined
}

const tokensOf = ({ refreshToken, idToken }: Answer): StoredTokens => ({ refresh: refreshToken, id: idToken })

const attemptGone = () =>
  new AppError(
    'unauthorized',
    'This attempt to sign in was used, has expired, or began in another browser: sign in again.',
  )

/** Who the person is, and what they may do; `refusal`: why they may do nothing. */
export type Evaluated = { row: PersonRow; hasGroups: boolean } & (
  | { granted: Granted; refusal?: never }
  | { granted?: never; refusal: string }
)

interface SignInParts {
  provider: Provider | undefined
  roleTable: RoleTable
  protectionAlerts: ProtectionAlerts
}

export type PeopleSignIn = ReturnType<typeof createPeopleSignIn>

/** Lets people sign in at the provider. */
export function createPeopleSignIn(deps: Deps, { provider, roleTable, protectionAlerts }: SignInParts) {
  const { database, clock, secrets, log } = deps
  const buckets = new TokenBuckets(msPerAttempt, burst, maxAddresses)

  function required(): Provider {
    if (provider) return provider
    throw new AppError('conflict', 'No provider is configured: set WARDLINE_OIDC_ISSUER, or sign in with a key.')
  }

  function take(address: string | null): void {
    const now = clock.monotonic()
    const bucket = buckets.of(addressGroup(address ?? ''), now)
    const waitMs = waitFor(bucket, 1, now)
    if (waitMs > 0) {
      throw new AppError('quota_exceeded', 'Too many attempts to sign in from this address.', Math.ceil(waitMs / 1_000))
    }
    spend(bucket, 1)
  }

  /** Decides by what the provider said. */
  async function evaluate({ subject, sources }: Answer, known?: PersonRow): Promise<Evaluated> {
    const { issuer, groupsClaim } = required().settings
    const described = describe(sources, groupsClaim)
    const { mappings } = await roleTable.read()
    const granted = roleOf(mappings, described)
    const now = clock.now()
    const row = personRow({ issuer, subject }, described, granted, { now, signedInAt: known?.signed_in_at ?? now })
    const common = { row, hasGroups: described.doubt !== 'missing' }
    return granted ? { ...common, granted } : { ...common, refusal: refusalOf(mappings, described, groupsClaim) }
  }

  /** Takes the attempt, which can be used once. */
  async function takeAttempt(state: string, secret: string): Promise<Attempt> {
    const stateHash = hashKey(state)
    const row = await findSignIn(database.db, stateHash, clock.now())
    if (!row || !sameHash(hashKey(secret), row.secret_hash)) throw attemptGone()
    try {
      await database.batch(takeSignInStatements(database, stateHash), { isControl: true })
    } catch (fault) {
      if (fault instanceof DatabaseError && fault.stale) throw attemptGone()
      throw fault
    }
    return { state, ...unseal<Omit<Attempt, 'state'>>(stateHash, row.sealed, secrets.signInKey) }
  }

  return {
    evaluate,

    async view(): Promise<SignIn> {
      const peopleOnly = provider !== undefined && (await isFactKnown(database.db, 'people_only'))
      return { provider: provider ? { name: provider.settings.name } : null, people_only: peopleOnly }
    },

    /** Throws AppError `conflict` where it would lock everybody out. */
    async setPeopleOnly(peopleOnly: boolean, actor: Actor): Promise<void> {
      const before = { people_only: await isFactKnown(database.db, 'people_only') }
      if (peopleOnly && !(await hasAdmin(database.db, required().settings.issuer))) {
        throw new AppError(
          'conflict',
          'No person with role admin has signed in yet: sign in as one first, so that the provider and the table of roles are proven to work.',
        )
      }
      const action = { action: 'people.only', target: null, before, after: { people_only: peopleOnly } }
      const now = clock.now()
      const statements = [
        factStatement(database.db, 'people_only', peopleOnly ? 'true' : undefined),
        ...protectionAlerts.statements(actor, action, now),
        ...auditStatements(database, actor, action, now),
      ]
      await database.batch(statements, { isControl: true })
    },

    /** Begins an attempt. Throws AppError. */
    async start(address: string | null): Promise<{ url: string; secret: string }> {
      const used = required()
      take(address)
      if ((await countSignIns(database.db)) >= maxAttempts) {
        throw new AppError('overloaded', 'Too many people are signing in at the same time; retry.', 60)
      }
      const [state, nonce, verifier, secret] = [randomSecret(32), randomSecret(32), randomSecret(32), randomSecret(32)]
      const url = await used.start({ state, nonce, verifier })
      const stateHash = hashKey(state)
      const row = {
        state_hash: stateHash,
        secret_hash: hashKey(secret),
        sealed: seal(stateHash, { nonce, verifier }, secrets.signInKey),
        expires_at: clock.now() + attemptMs,
      }
      await database.batch([insertSignInStatement(database.db, row)], { isControl: true })
      return { url, secret }
    },

    /** Finishes an attempt with the query of the provider's answer. Throws AppError. */
    async finish(
      { answer, secret }: { answer: string; secret: string },
      opening: {
        actor(principal: ReturnType<typeof principalOf>): Actor
        earlier: string | undefined
        device: string | undefined
      },
    ) {
      const used = required()
      const state = new URLSearchParams(answer).get('state')
      if (state === null) throw attemptGone()
      const said = await used.finish(answer, await takeAttempt(state, secret))
      const evaluated = await evaluate(said)
      const { row, granted, refusal } = evaluated
      if (!granted) {
        log.warn({ person: row.id }, 'a person without a role tried to sign in')
        await database.batch([personStatement(database.db, row), endSessionsStatement(database.db, row.id)])
        throw new AppError('forbidden', refusal)
      }
      const now = clock.now()
      const ofPerson: PersonSession = {
        authenticated_at: said.authenticatedAt ?? null,
        evaluated_at: now,
        due_at: said.refreshToken === undefined ? null : now + evaluateEveryMs,
        provider_session: said.providerSession ?? null,
        endsBy: said.refreshToken === undefined ? now + unevaluatedMs : Infinity,
        sealFor: (id) => seal(id, tokensOf(said), secrets.signInKey),
      }
      const principal = principalOf(row, granted.role)
      const { session, statements } = await prepareSession(deps, {
        actor: opening.actor(principal),
        earlier: opening.earlier,
        by: 'provider',
        device: opening.device,
        ofPerson,
      })
      const all: Statement[] = [personStatement(database.db, row), ...statements]
      await database.batch(all, { isControl: true })
      return { session, principal }
    },
  }
}
