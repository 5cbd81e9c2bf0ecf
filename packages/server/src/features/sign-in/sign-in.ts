import type { Json, SignIn } from '@wardline/contract'
import { minuteMs } from '../../clock.ts'
import type { Statement } from '../../db/database.ts'
import { factStatement, isFactKnown } from '../../db/facts.ts'
import type { Deps } from '../../deps.ts'
import { AppError, DatabaseError } from '../../errors.ts'
import { addressGroup } from '../../http/address-group.ts'
import { randomSecret } from '../../ids.ts'
import { seal, unseal } from '../../sealed.ts'
import { type Actor, auditStatements, localActor } from '../audit/audit.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import { localAdminIds } from '../keys/bootstrap.ts'
import { hashKey } from '../keys/key-format.ts'
import { endKeySessionsStatement, endSessionsStatement } from '../keys/session-statements.ts'
import { type PersonSession, prepareSession, unevaluatedMs } from '../keys/sessions.ts'
import { readPasskeys } from '../people/passkey-statements.ts'
import { personRow, principalOf } from '../people/people.ts'
import { findPerson, hasAdmin, type PersonRow, personPrefix, personStatement } from '../people/person-statements.ts'
import type { RoleTable } from '../people/role-mappings.ts'
import { describe, type Granted, refusalOf, roleOf } from '../people/roles.ts'
import { AttemptLimit } from './attempt-limit.ts'
import type { Answer, Attempt, Provider } from './provider.ts'
import { insertSignInStatement } from './queries.ts'

/** Time to sign in at the provider, with a second factor that has to be found first. */
const attemptMs = 10 * minuteMs
/** How often the provider is asked for the groups of a person with an open session. */
export const evaluateEveryMs = 10 * minuteMs

/** An attempt, encrypted for the browser that began it, so that nothing is stored before it is finished. */
interface StoredAttempt extends Attempt {
  /** Whether the person has to prove again who they are. */
  isConfirmation: boolean
  /** The login of a command line that it is for. */
  challenge?: string
  expiresAt: number
}

/** What the encrypted text is of: an attempt for a browser is worth nothing for a command line, and the other way round. */
const sealedFor = { browser: 'an attempt to sign in', command: 'an attempt to sign in a command line' }
type AttemptFor = keyof typeof sealedFor

/** A finished attempt of a person who has a role. */
export interface Proven {
  principal: ReturnType<typeof principalOf>
  ofPerson: PersonSession
  challenge: string | undefined
  /** What is stored of the person, whether or not a session is opened. */
  statements: Statement[]
}

/** The browser that finishes an attempt. */
export interface Opening {
  address: string | null
  actor(principal: ReturnType<typeof principalOf>): Actor
  /** The session that it already has. */
  earlier: string | undefined
  device: string | undefined
}

/** Maximum time from the proof to the exchange, in which the person may have to consent. */
const confirmedSeconds = 120

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
  const limit = new AttemptLimit(deps)

  function required(): Provider {
    if (provider) return provider
    throw new AppError('conflict', 'No provider is configured: set WARDLINE_OIDC_ISSUER, or sign in with a key.')
  }

  /** Decides by what the provider said. */
  async function evaluate(
    { subject, sources }: Answer,
    { askedAt, signedInAt }: { askedAt: number; signedInAt: number },
  ): Promise<Evaluated> {
    const { issuer, groupsClaim } = required().settings
    const described = describe(sources, groupsClaim)
    const { mappings } = await roleTable.read()
    const granted = roleOf(mappings, described)
    const row = personRow({ issuer, subject }, described, granted, { now: askedAt, signedInAt })
    const common = { row, hasGroups: described.doubt !== 'missing' }
    return granted ? { ...common, granted } : { ...common, refusal: refusalOf(mappings, described, groupsClaim) }
  }

  /** Opens the attempt of this browser, and marks it as used. */
  async function takeAttempt(state: string, secret: string, use: AttemptFor): Promise<StoredAttempt> {
    let attempt: StoredAttempt
    try {
      attempt = unseal<StoredAttempt>(sealedFor[use], secret, secrets.signInKey)
    } catch {
      throw attemptGone()
    }
    if (attempt.state !== state || attempt.expiresAt <= clock.now()) throw attemptGone()
    const row = { state_hash: hashKey(state), expires_at: attempt.expiresAt }
    try {
      await database.batch([insertSignInStatement(database.db, row)], { isControl: true })
    } catch (fault) {
      if (fault instanceof DatabaseError && fault.constraint) throw attemptGone()
      throw fault
    }
    return attempt
  }

  /** Returns the ids of the keys and passkeys with which the local admin signs in. */
  async function emergencyIds(): Promise<string[]> {
    const passkeys = await readPasskeys(database.db)
    return [...(await localAdminIds(database.db)), ...passkeys.map(({ id }) => id)]
  }

  /** Returns the audit entry of a role that changed. */
  async function roleChange({ row, refusal }: Evaluated, actor: Actor, now: number): Promise<Statement[]> {
    const known = await findPerson(database.db, row.id)
    if ((known?.role ?? null) === row.role && (known?.team ?? null) === row.team) return []
    const tags = (team: string | null): { [name: string]: Json } => (team === null ? {} : { tags: JSON.parse(team) })
    const action = {
      action: 'person.role',
      target: row.id,
      before: known ? { role: known.role, by: known.role_by, ...tags(known.team) } : null,
      after: { role: row.role, by: row.role_by, ...tags(row.team), name: row.name },
      ...(refusal === undefined ? {} : { reason: refusal }),
    }
    return auditStatements(database, actor, action, now)
  }

  /** Finishes an attempt with the query of the provider's answer. Throws AppError. */
  async function prove(
    { answer, secret }: { answer: string; secret: string },
    address: string | null,
    use: AttemptFor,
  ): Promise<Proven> {
    const used = required()
    limit.take(addressGroup(address ?? ''))
    const state = new URLSearchParams(answer).get('state')
    if (state === null) throw attemptGone()
    const attempt = await takeAttempt(state, secret, use)
    // A later answer, such as that of an evaluation, counts more than this one.
    const askedAt = clock.now()
    const said = await used
      .finish(answer, attempt, attempt.isConfirmation ? confirmedSeconds : undefined)
      .catch((fault) => {
        log.warn({ err: fault }, 'a person could not sign in')
        throw fault
      })
    const evaluated = await evaluate(said, { askedAt, signedInAt: askedAt })
    const { row, granted, refusal } = evaluated
    limit.take(row.id)
    const now = clock.now()
    if (!granted) {
      log.warn({ person: row.id }, 'a person without a role tried to sign in')
      await database.batch([
        personStatement(database.db, row),
        endSessionsStatement(database.db, row.id),
        ...(await roleChange(evaluated, localActor('system'), now)),
      ])
      throw new AppError('forbidden', refusal)
    }
    const ofPerson: PersonSession = {
      authenticated_at: said.authenticatedAt ?? null,
      evaluated_at: askedAt,
      due_at: said.refreshToken === undefined ? null : now + evaluateEveryMs,
      provider_session: said.providerSession ?? null,
      endsBy: said.refreshToken === undefined ? now + unevaluatedMs : Infinity,
      shown: { name: row.name, role: granted.role, role_by: granted.by },
      sealFor: (id) => seal(id, tokensOf(said), secrets.signInKey),
    }
    const change = await roleChange(evaluated, localActor('system'), now)
    return {
      principal: principalOf(row, granted.role),
      ofPerson,
      challenge: attempt.challenge,
      statements: [personStatement(database.db, row), ...change],
    }
  }

  return {
    evaluate,
    roleChange,
    prove,

    async view(): Promise<Omit<SignIn, 'passkeys'>> {
      const peopleOnly = provider !== undefined && (await isFactKnown(database.db, 'people_only'))
      return { provider: provider ? { name: provider.settings.name } : null, people_only: peopleOnly }
    },

    /** Throws AppError `conflict` where it would lock everybody out. */
    async setPeopleOnly(peopleOnly: boolean, actor: Actor): Promise<void> {
      const before = { people_only: await isFactKnown(database.db, 'people_only') }
      if (peopleOnly && !(await hasAdmin(database.db, required().settings.issuer, clock.now()))) {
        throw new AppError(
          'conflict',
          'No person with role admin has signed in yet: sign in as one first, so that the provider and the table of roles are proven to work.',
        )
      }
      const action = { action: 'people.only', target: null, before, after: { people_only: peopleOnly } }
      const now = clock.now()
      const statements = [
        factStatement(database.db, 'people_only', peopleOnly ? 'true' : undefined),
        ...(peopleOnly ? [endKeySessionsStatement(database.db, personPrefix, await emergencyIds())] : []),
        ...protectionAlerts.statements(actor, action, now),
        ...auditStatements(database, actor, action, now),
      ]
      await database.batch(statements, { isControl: true })
    },

    /** Begins an attempt, for a browser or for the login of a command line. Throws AppError. */
    async start(
      address: string | null,
      isConfirmation: boolean,
      challenge?: string,
    ): Promise<{ url: string; secret: string }> {
      const used = required()
      limit.take(addressGroup(address ?? ''))
      const [state, nonce, verifier] = [randomSecret(32), randomSecret(32), randomSecret(32)]
      // The provider authenticates the person again, whatever session it has.
      const url = await used.start({ state, nonce, verifier }, isConfirmation ? 0 : undefined)
      const attempt: StoredAttempt = {
        ...{ state, nonce, verifier, isConfirmation, expiresAt: clock.now() + attemptMs },
        ...(challenge === undefined ? {} : { challenge }),
      }
      const use = challenge === undefined ? 'browser' : 'command'
      return { url, secret: seal(sealedFor[use], attempt, secrets.signInKey) }
    },

    /** Opens a session of a browser with the query of the provider's answer. Throws AppError. */
    async finish(said: { answer: string; secret: string }, { address, actor, earlier, device }: Opening) {
      const { principal, ofPerson, statements: ofRole } = await prove(said, address, 'browser')
      const { session, statements } = await prepareSession(deps, {
        actor: actor(principal),
        earlier,
        by: 'provider',
        device,
        ofPerson,
      })
      await database.batch([...ofRole, ...statements], { isControl: true })
      return { session, principal }
    },
  }
}
