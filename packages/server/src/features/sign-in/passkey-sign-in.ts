import { type Assertion, type NewCredential, type Passkey, passkeyLimits } from '@wardline/contract'
import { base62 } from '@wardline/text'
import { isoTime, minuteMs } from '../../clock.ts'
import { rowsOf, type Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { AppError, DatabaseError, unknownId } from '../../errors.ts'
import { addressGroup } from '../../http/address-group.ts'
import type { Principal } from '../../http/auth.ts'
import { assertFresh } from '../../http/fresh.ts'
import { randomSecret, randomText } from '../../ids.ts'
import { seal, unseal } from '../../sealed.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import { isLocalAdmin } from '../keys/bootstrap.ts'
import { hashKey } from '../keys/key-format.ts'
import { confirmedStatement, endSessionsStatement } from '../keys/session-statements.ts'
import { type KeySignIns, prepareSession } from '../keys/sessions.ts'
import {
  insertPasskeyStatement,
  lockPasskey,
  type PasskeyRow,
  passkeyPrefix,
  removePasskeyStatement,
  usedStatement,
} from '../people/passkey-statements.ts'
import { AttemptLimit } from './attempt-limit.ts'
import type { Site } from './passkey-site.ts'
import type { Passkeys } from './passkeys.ts'
import { insertSignInStatement } from './queries.ts'
import type { Opening } from './sign-in.ts'
import { algorithms, verifyNew, verifySigned } from './webauthn.ts'

/** Time to find the device and use it. */
const attemptMs = 5 * minuteMs
const idAlphabet = base62.slice(0, 10) + base62.slice(36)

/** An attempt, encrypted for the page that began it, so that nothing is stored before it is finished. */
type Attempt = { challenge: string; expiresAt: number } & (
  | { purpose: 'register'; session: string; name: string }
  | { purpose: 'confirm'; session: string }
  | { purpose: 'sign in' }
)

/** What the encrypted text is of. */
const sealedFor = 'an attempt with a passkey'

const attemptGone = () =>
  new AppError('unauthorized', 'This attempt was used, has expired, or began on another page: start again.')
const notAccepted = () =>
  new AppError('unauthorized', 'The passkey is not accepted: it is unknown here, or was removed.')

const credentials = (passkeys: readonly PasskeyRow[]) =>
  passkeys.map(({ credential_id: id }) => ({ type: 'public-key' as const, id }))

const viewPasskey = ({ id, name, created_at, last_used_at }: PasskeyRow): Passkey => ({
  id,
  name,
  created_at: isoTime(created_at),
  last_used_at: last_used_at === null ? null : isoTime(last_used_at),
})

export const notOfLocalAdmin =
  'Passkeys are for the local admin: sign in with the local admin key, or with a passkey, in a browser.'

/** Whether it is a browser session of the local admin, in which passkeys are registered and used. */
export const isOfLocalAdmin = (principal: Principal): principal is Principal & { session: string } =>
  principal.session !== undefined && !principal.isCommandLine && isLocalAdmin(principal)

/** Returns the session. Throws AppError `invalid`. */
export function localSession(principal: Principal): string {
  if (isOfLocalAdmin(principal)) return principal.session
  throw new AppError('invalid', notOfLocalAdmin)
}

type Finished<Credential> = {
  secret: string
  credential: Credential
}

interface PasskeyParts {
  passkeys: Passkeys
  keySignIns: KeySignIns
  protectionAlerts: ProtectionAlerts
}

export type PasskeySignIn = ReturnType<typeof createPasskeySignIn>

/** Registers the passkeys of the local admin, opens sessions by them, and confirms sessions. */
export function createPasskeySignIn(deps: Deps, { passkeys, keySignIns, protectionAlerts }: PasskeyParts) {
  const { database, clock, secrets, log } = deps
  const limit = new AttemptLimit(deps)

  /** Begins an attempt; what is still missing in it is the challenge. */
  function begin(attempt: Record<string, string>): { challenge: string; secret: string } {
    const challenge = randomSecret(32)
    const content = { ...attempt, challenge, expiresAt: clock.now() + attemptMs }
    return { challenge, secret: seal(sealedFor, content, secrets.signInKey) }
  }

  /** Throws AppError `unauthorized` if the attempt is of another purpose or session, or over. */
  function attemptOf<Purpose extends Attempt['purpose']>(purpose: Purpose, secret: string, session?: string) {
    let attempt: Attempt
    try {
      attempt = unseal<Attempt>(sealedFor, secret, secrets.signInKey)
    } catch {
      throw attemptGone()
    }
    const isOther = attempt.purpose !== purpose || ('session' in attempt && attempt.session !== session)
    if (isOther || attempt.expiresAt <= clock.now()) throw attemptGone()
    return attempt as Extract<Attempt, { purpose: Purpose }>
  }

  /** Marks the attempt as used, in the batch of what it is used for: who cannot sign stores nothing. */
  const markStatement = ({ challenge, expiresAt }: Attempt): Statement =>
    insertSignInStatement(database.db, { state_hash: hashKey(challenge), expires_at: expiresAt })

  /** Stores a change, once for its attempt. */
  async function store(statements: readonly Statement[]) {
    try {
      return await database.batch(statements, { isControl: true })
    } catch (fault) {
      // The mark is there, or the passkey was used or removed in the meantime.
      if (fault instanceof DatabaseError && (fault.constraint || fault.stale)) throw attemptGone()
      throw fault
    }
  }

  async function verified<Result>(verifying: Promise<Result>): Promise<Result> {
    try {
      return await verifying
    } catch (fault) {
      const { message } = fault as Error
      log.warn({ reason: message.slice(0, 200) }, 'a passkey was not accepted')
      // Only who has the passkey reads that its counter went back.
      if (message.startsWith('the counter')) {
        throw new AppError('unauthorized', 'The counter of the passkey went back: it may have been copied. Remove it.')
      }
      throw notAccepted()
    }
  }

  /** Returns the passkey that signed, and the statements that note it. Rejects with AppError `unauthorized`. */
  async function usedPasskey(credential: Assertion, attempt: Attempt, site: Site) {
    await passkeys.refresh()
    const row = passkeys.usable().find(({ credential_id }) => credential_id === credential.id)
    if (!row) throw notAccepted()
    const counter = await verified(verifySigned(credential, row, { challenge: attempt.challenge, site }))
    const used = [
      lockPasskey(database, row),
      markStatement(attempt),
      usedStatement(database.db, row.id, counter, clock.now()),
    ]
    return { row, used }
  }

  const requestOptions = (challenge: string, { rpId }: Site, allowed: readonly PasskeyRow[]) => ({
    challenge,
    rpId,
    timeout: attemptMs,
    userVerification: 'required' as const,
    allowCredentials: credentials(allowed),
  })

  async function assertSome(): Promise<void> {
    await passkeys.refreshLately()
    if (passkeys.usable().length === 0) {
      throw new AppError('conflict', 'No passkey is registered for this address: sign in with a key.')
    }
  }

  return {
    /** Whether the sign-in page offers it. */
    async isOffered(site: Site | string): Promise<boolean> {
      if (typeof site === 'string') return false
      await passkeys.refreshLately()
      return passkeys.usable().length > 0
    },

    async list(): Promise<Passkey[]> {
      await passkeys.refresh()
      return passkeys.valid().map(viewPasskey)
    },

    /** Begins to register a passkey. Throws AppError. */
    async startNew(principal: Principal, name: string, { rpId }: Site) {
      const session = localSession(principal)
      // A passkey outlives the session, so the first one needs a confirmation as well.
      assertFresh({ ...principal, confirmsByPasskey: true }, clock.now())
      await passkeys.refresh()
      const known = passkeys.valid()
      if (known.length >= passkeyLimits.passkeys) {
        throw new AppError('conflict', `There are ${passkeyLimits.passkeys} passkeys, the maximum: remove one first.`)
      }
      const { challenge, secret } = begin({ purpose: 'register', session, name })
      const selection = { residentKey: 'required', requireResidentKey: true, userVerification: 'required' } as const
      const options = {
        rp: { id: rpId, name: 'Wardline' },
        // One account for each: an authenticator replaces a passkey of the same account.
        user: { id: randomSecret(32), name: `Wardline: ${name}`, displayName: name },
        challenge,
        pubKeyCredParams: algorithms.map((alg) => ({ type: 'public-key' as const, alg })),
        timeout: attemptMs,
        excludeCredentials: credentials(known),
        authenticatorSelection: selection,
        attestation: 'none' as const,
      }
      return { options, secret }
    },

    /** Registers the passkey that the browser made. Rejects with AppError. */
    async finishNew(
      principal: Principal,
      { secret, credential }: Finished<NewCredential>,
      site: Site,
      actor: Actor,
    ): Promise<Passkey> {
      const attempt = attemptOf('register', secret, localSession(principal))
      const made = await verified(verifyNew(credential, { challenge: attempt.challenge, site }))
      await passkeys.refresh()
      const now = clock.now()
      const own = passkeys.valid().find(({ id }) => id === principal.keyId)
      const row: PasskeyRow = {
        ...made,
        id: passkeyPrefix + randomText(16, idAlphabet),
        key_id: own?.key_id ?? principal.keyId,
        name: attempt.name,
        rp_id: site.rpId,
        created_at: now,
        last_used_at: null,
        removed_at: null,
      }
      const action = {
        action: 'passkey.create',
        target: row.id,
        before: null,
        after: { name: row.name, rp_id: row.rp_id },
      }
      await store([
        markStatement(attempt),
        insertPasskeyStatement(database.db, row),
        ...protectionAlerts.statements(actor, action, now),
        ...auditStatements(database, actor, action, now),
      ])
      await passkeys.refresh()
      return viewPasskey(row)
    },

    /** Removes a passkey and ends its sessions. Throws AppError `not_found`. */
    async remove(id: string, actor: Actor): Promise<void> {
      await passkeys.refresh()
      const row = passkeys.valid().find((passkey) => passkey.id === id)
      if (!row) throw unknownId('passkey', id, 'wardline passkeys')
      const now = clock.now()
      const action = { action: 'passkey.remove', target: id, before: { name: row.name }, after: null }
      await database.batch(
        [
          removePasskeyStatement(database.db, id, now),
          endSessionsStatement(database.db, id),
          ...auditStatements(database, actor, action, now),
        ],
        { isControl: true },
      )
      await passkeys.refresh()
    },

    /** Begins to sign in. Nothing in it depends on which passkeys there are. Throws AppError. */
    async start(address: string | null, site: Site) {
      limit.take(addressGroup(address ?? ''))
      await assertSome()
      const { challenge, secret } = begin({ purpose: 'sign in' })
      return { options: requestOptions(challenge, site, []), secret }
    },

    /** Opens a session. Rejects with AppError. */
    async finish(
      { secret, credential }: Finished<Assertion>,
      site: Site,
      { address, actor: actorOf, earlier, device }: Opening,
    ) {
      limit.take(addressGroup(address ?? ''))
      const { row, used } = await usedPasskey(credential, attemptOf('sign in', secret), site)
      limit.take(row.id)
      const principal = passkeys.principalOf(row)
      if (!principal) throw notAccepted()
      const actor = actorOf(principal)
      const alarm = await keySignIns.admit(principal, actor)
      const opening = { actor, earlier, by: 'passkey', device, isConfirmed: true } as const
      const { session, statements } = await prepareSession(deps, opening)
      const all = [...used, ...(alarm?.statements ?? []), ...statements]
      const results = await store(all)
      alarm?.stored(rowsOf(all, results))
      return { session, principal }
    },

    /** Begins to confirm a session of the local admin. Throws AppError. */
    async startConfirmation(principal: Principal, site: Site) {
      const session = localSession(principal)
      await assertSome()
      const { challenge, secret } = begin({ purpose: 'confirm', session })
      const allowed = passkeys.usable().filter(({ id }) => !principal.passkey || id === principal.keyId)
      return { options: requestOptions(challenge, site, allowed), secret }
    },

    /** Confirms the session: one of a passkey only by that passkey. Rejects with AppError. */
    async confirm(
      principal: Principal,
      { secret, credential }: Finished<Assertion>,
      site: Site,
      actor: Actor,
    ): Promise<void> {
      const session = localSession(principal)
      const { row, used } = await usedPasskey(credential, attemptOf('confirm', secret, session), site)
      if (principal.passkey && row.id !== principal.keyId) throw notAccepted()
      const now = clock.now()
      const action = { action: 'session.confirm', target: principal.keyId, before: null, after: { passkey: row.id } }
      await store([
        ...used,
        confirmedStatement(database.db, session, now),
        ...auditStatements(database, actor, action, now),
      ])
    },
  }
}
