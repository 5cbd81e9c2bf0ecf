import { type BodyOf, commandLoginLimits, type ReplyOf } from '@wardline/contract'
import { sanitize } from '@wardline/text'
import { isoTime, minuteMs } from '../../clock.ts'
import { type RowsOf, rowsOf, type Statement } from '../../db/database.ts'
import { changeGuarded } from '../../db/guarded-change.ts'
import type { Deps } from '../../deps.ts'
import { AppError, DatabaseError } from '../../errors.ts'
import { addressGroup } from '../../http/address-group.ts'
import type { Principal } from '../../http/auth.ts'
import { assertFresh } from '../../http/fresh.ts'
import { randomSecret, randomText } from '../../ids.ts'
import { spend, TokenBuckets, waitFor } from '../../token-bucket.ts'
import { type Actor, auditStatements, localActor } from '../audit/audit.ts'
import { grantAccess } from '../keys/access-tokens.ts'
import { hashKey, sameHash } from '../keys/key-format.ts'
import {
  endSessionStatement,
  fetchedStatement,
  findSession,
  renewStatements,
  type SessionRow,
  secretHashes,
} from '../keys/session-statements.ts'
import { commandSessionStatements, isOver, type KeySignIns, type PersonSession } from '../keys/sessions.ts'
import type { PeopleSignIn } from '../sign-in/sign-in.ts'
import {
  allowStatements,
  type CommandLoginRow,
  deleteLogin,
  deleteLoginsBefore,
  findLogin,
  insertLoginStatement,
  readWaitingAddresses,
  takeLoginStatements,
} from './queries.ts'

/** Without vowels, so that no word appears, as RFC 8628 recommends: 20^8 codes, 34 bits. */
const codeAlphabet = 'BCDFGHJKLMNPQRSTVWXZ'
const codeLength = 8

/** Logins that wait at the same time: far more than people begin within ten minutes, and few enough to guess none. */
const maxWaiting = 1_000
/** Of these from one address: an office in the morning. More than 30 addresses must join in to lock the others out. */
const maxWaitingOfAddress = 30
/** Logins that one address begins: an office in the morning, and then one in ten seconds. */
const startsBurst = 30
const msPerStart = 10_000
/** Codes of a session that match nothing: mistyped ones, and then one in six seconds. 34 bits outlast that by far. */
const guessesBurst = 10
const msPerGuess = 6_000
/** A little faster than the command line asks, so that a late timer is no fault. */
const msPerQuestion = (commandLoginLimits.intervalSeconds - 1) * 1_000
/** Addresses, sessions and logins that are counted, a hundred bytes each. */
const maxCounted = 10_000

const unknownCode = () =>
  new AppError('not_found', 'No login waits under this code: it was used or refused, has expired, or was mistyped.')
export const loginGone = () =>
  new AppError('unauthorized', 'This login was refused, has expired or was finished: begin it again.')
export const sessionGone = () =>
  new AppError('unauthorized', 'The session of this command line has ended: sign in again.')

/** Returns the address that the browser opens, where the command line listens. No other host is possible. */
function answerOf({ port, state }: CommandLoginRow, answer: Record<string, string>): { redirect_url?: string } {
  if (port === null || state === null) return {}
  return { redirect_url: `http://127.0.0.1:${port}/?${new URLSearchParams({ ...answer, state })}` }
}

/** The person or key that allows a login, in a browser. */
export interface Allowing {
  principal: Principal
  actor: Actor
  address: string | null
  /** Origin of this service, as the browser and the command line have to name it. */
  origin: string
}

type Renewed = ReplyOf<'renewCommandLogin'>

interface CommandLoginParts {
  peopleSignIn: Pick<PeopleSignIn, 'start' | 'prove'>
  keySignIns: KeySignIns
}

export type CommandLogins = ReturnType<typeof createCommandLogins>

/** Lets command lines act for the people who allow it in a browser. */
export function createCommandLogins(deps: Deps, { peopleSignIn, keySignIns }: CommandLoginParts) {
  const { database, clock, log } = deps
  const starts = new TokenBuckets(msPerStart, startsBurst, maxCounted)
  const guesses = new TokenBuckets(msPerGuess, guessesBurst, maxCounted)
  const questions = new TokenBuckets(msPerQuestion, 1, maxCounted)

  /** Throws AppError `quota_exceeded`. */
  function take(buckets: TokenBuckets, name: string, sentence: string): void {
    const now = clock.monotonic()
    const bucket = buckets.of(name, now)
    const waitMs = waitFor(bucket, 1, now)
    if (waitMs > 0) throw new AppError('quota_exceeded', sentence, Math.ceil(waitMs / 1_000))
    spend(bucket, 1)
  }

  /** Returns the login that waits under a code. Throws AppError. */
  async function find(code: string, { session }: Principal): Promise<CommandLoginRow> {
    const now = clock.monotonic()
    const bucket = guesses.of(session!, now)
    const waitMs = waitFor(bucket, 1, now)
    if (waitMs > 0) throw new AppError('quota_exceeded', 'Too many wrong codes.', Math.ceil(waitMs / 1_000))
    // Before the query, so that concurrent guesses count. A right one costs nothing.
    spend(bucket, 1)
    const letters = code.toUpperCase().replaceAll(/[^A-Z]/g, '')
    const row = await findLogin(database.db, { code_hash: hashKey(letters) }, clock.now())
    if (!row || row.allowed_at !== null) throw unknownCode()
    spend(bucket, -1)
    return row
  }

  /** Opens the session of a login. Resolves with the address to open, where the command line listens for it. */
  async function allow(
    login: CommandLoginRow,
    { actor, allowedBy, origin }: Pick<Allowing, 'actor' | 'origin'> & { allowedBy: SessionRow },
    {
      ofPerson,
      statements,
      stored,
    }: { ofPerson?: PersonSession; statements: Statement[]; stored?(rows: RowsOf): void },
  ): Promise<{ redirect_url?: string }> {
    const code = login.port === null ? undefined : randomSecret(32)
    const all = [
      ...allowStatements(database, login, code === undefined ? null : hashKey(code), clock.now()),
      ...statements,
      ...commandSessionStatements(deps, { actor, login, allowedBy, ...(ofPerson ? { ofPerson } : {}) }),
    ]
    try {
      const results = await database.batch(all, { isControl: true })
      stored?.(rowsOf(all, results))
    } catch (fault) {
      if (fault instanceof DatabaseError && (fault.stale || fault.constraint)) throw unknownCode()
      throw fault
    }
    // Another server that passes the requests of a command line on to this one would otherwise get the code (RFC 9207).
    return answerOf(login, code === undefined ? {} : { code, iss: origin })
  }

  /** Returns the browser session through which a login is allowed. */
  async function sessionOf({ session }: Principal): Promise<SessionRow> {
    const row = await findSession(database.db, session!)
    if (row) return row
    throw new AppError('unauthorized', 'The session of this browser has ended: sign in again.')
  }

  const renewed = (session: SessionRow): Renewed => {
    const { access, expiresAt } = grantAccess(deps, session)
    const seconds = Math.max(0, Math.floor((expiresAt - clock.now()) / 1_000))
    return { access, access_seconds: seconds, expires_at: isoTime(session.expires_at) }
  }

  return {
    find,

    /** Begins a login, which a person has to allow. Throws AppError. */
    async start(
      { challenge, host, loopback, confirm = false }: BodyOf<'startCommandLogin'>,
      address: string | null,
    ): Promise<{ code: string; expiresAt: number }> {
      take(starts, addressGroup(address ?? ''), 'Too many logins of command lines from this address.')
      const now = clock.now()
      const waiting = await readWaitingAddresses(database.db, now, maxWaiting)
      const group = addressGroup(address ?? '')
      const ofGroup = waiting.filter((other) => addressGroup(other ?? '') === group)
      if (waiting.length >= maxWaiting || ofGroup.length >= maxWaitingOfAddress) {
        throw new AppError(
          'quota_exceeded',
          `Too many logins of command lines wait${waiting.length >= maxWaiting ? '' : ' from this address'}.`,
          commandLoginLimits.validMinutes * 60,
        )
      }
      const code = randomText(codeLength, codeAlphabet)
      const expiresAt = now + commandLoginLimits.validMinutes * minuteMs
      const row: CommandLoginRow = {
        challenge,
        code_hash: hashKey(code),
        host: sanitize(host),
        address,
        port: loopback?.port ?? null,
        state: loopback?.state ?? null,
        confirm: confirm ? 1 : 0,
        answer_hash: null,
        allowed_at: null,
        created_at: now,
        expires_at: expiresAt,
      }
      try {
        await database.batch([insertLoginStatement(database.db, row)], { isControl: true })
      } catch (fault) {
        if (fault instanceof DatabaseError && fault.constraint) {
          throw new AppError('conflict', 'The challenge was used before: begin with another token.')
        }
        throw fault
      }
      return { code: `${code.slice(0, codeLength / 2)}-${code.slice(codeLength / 2)}`, expiresAt }
    },

    /**
     * Opens the session, or begins the sign-in of a person at the provider: the tokens of a browser's session cannot be
     * shared, because most providers replace them at each use.
     */
    async approve(code: string, { principal, actor, address, origin }: Allowing) {
      const login = await find(code, principal)
      const allowedBy = await sessionOf(principal)
      if (allowedBy.evaluated_at !== null) {
        return { sign_in: await peopleSignIn.start(address, login.confirm === 1, login.challenge) }
      }
      // The command line is not asked for a cookie and its secret, so it must not come from a browser left open.
      assertFresh(principal, clock.now())
      if (login.confirm === 1 && !principal.confirmsByPasskey) {
        throw new AppError('invalid', 'A key has nothing to confirm: run `wardline login` without --confirm.')
      }
      return allow(
        login,
        { actor, allowedBy, origin },
        (await keySignIns.admit(principal, actor)) ?? { statements: [] },
      )
    },

    /** Opens the session of a person with the query of the provider's answer. */
    async signIn(answer: BodyOf<'signInCommandLogin'>, { principal, actor, address, origin }: Allowing) {
      const proven = await peopleSignIn.prove(answer, address, 'command')
      if (proven.principal.keyId !== principal.keyId) {
        throw new AppError(
          'conflict',
          `At the provider you are signed in as ${proven.principal.name}, here as ${principal.name}: sign out here first.`,
        )
      }
      const login = await findLogin(database.db, { challenge: proven.challenge! }, clock.now())
      if (!login) throw unknownCode()
      return allow(login, { actor, allowedBy: await sessionOf(principal), origin }, proven)
    },

    async deny(code: string, principal: Principal): Promise<{ redirect_url?: string }> {
      const login = await find(code, principal)
      await deleteLogin(database.db, login.challenge)
      return answerOf(login, { error: 'access_denied' })
    },

    /** Gives the command line its session, once. Undefined: no such login. Throws AppError. */
    async finish({ token, secret, code }: BodyOf<'finishCommandLogin'>) {
      const challenge = hashKey(token)
      return changeGuarded<Renewed | 'pending' | undefined>(database, async () => {
        const now = clock.now()
        const login = await findLogin(database.db, { challenge }, now)
        if (!login) return { statements: [], result: () => undefined }
        if (login.allowed_at === null) {
          take(questions, challenge, 'Ask less often whether the login is allowed.')
          return { statements: [], result: () => 'pending' as const }
        }
        // A link that an attacker sends to someone leads to the machine of that person, so only they have this code.
        const isRight = login.port === null || sameHash(hashKey(code ?? ''), login.answer_hash!)
        const session = await findSession(database.db, challenge)
        if (!isRight || !session) throw loginGone()
        return {
          statements: [
            ...takeLoginStatements(database, challenge),
            fetchedStatement(database.db, challenge, hashKey(secret), now),
          ],
          result: () => renewed(session),
        }
      })
    },

    /**
     * Replaces the secret of a session. Any other one ends it: two have a copy (RFC 9700, section 4.14.2). The caller
     * chooses the next one, so an attempt whose answer was lost is repeated with the same two, and is no second use.
     * Undefined: no such session. Throws AppError.
     */
    async renew({ token, secret, next }: BodyOf<'renewCommandLogin'>) {
      if (secret === next) throw new AppError('invalid', 'next must be another secret.')
      const [tokenHash, given, nextHash] = [token, secret, next].map(hashKey) as [string, string, string]
      return changeGuarded<Renewed | undefined>(database, async () => {
        const session = await findSession(database.db, tokenHash)
        if (!session || session.host === null || session.secret_hash === null) {
          return { statements: [], result: () => undefined }
        }
        const now = clock.now()
        if (isOver(session, now)) throw sessionGone()
        const [current, previous] = secretHashes(session.secret_hash)
        // A caller who knows the current secret alone cannot name it as the next one, and so leave it in use for good.
        const isNew = sameHash(given, current)
        const isRepeated = previous !== undefined && sameHash(given, previous) && sameHash(nextHash, current)
        if (isNew || isRepeated) {
          const hashes = { previous: given, next: nextHash }
          return { statements: renewStatements(database, session, hashes, now), result: () => renewed(session) }
        }
        const action = {
          action: 'session.end',
          target: session.key_id,
          before: null,
          after: { host: session.host },
          reason: 'a secret of the command line was used a second time, so that another program may have a copy',
        }
        return {
          statements: [
            endSessionStatement(database.db, tokenHash),
            ...auditStatements(database, localActor('system'), action, now),
          ],
          result: () => {
            log.warn({ key: session.key_id }, 'a session of a command line was ended: its secret was used twice')
            throw sessionGone()
          },
        }
      })
    },

    /** Forgets logins that nobody allowed or fetched. */
    forgetStale: () => deleteLoginsBefore(database.db, clock.now()),
  }
}
