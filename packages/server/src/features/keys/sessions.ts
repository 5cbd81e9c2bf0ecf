import { commandLoginLimits } from '@wardline/contract'
import { sanitize } from '@wardline/text'
import { hourMs, minuteMs } from '../../clock.ts'
import type { Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import type { Authenticator, Principal, SessionProof } from '../../http/auth.ts'
import { randomSecret, uuidV7 } from '../../ids.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import type { PreparedEvents } from '../events/ingest.ts'
import { openAccess } from './access-tokens.ts'
import { hashKey, sameHash } from './key-format.ts'
import type { Keyring } from './keyring.ts'
import {
  deleteLoginCodesBefore,
  deleteStaleSessions,
  findSessions,
  insertSessionStatement,
  touchSession,
} from './queries.ts'
import { endFamilyStatement, findSession, type SessionRow, sessionId } from './session-statements.ts'

/** A session ends after this long without a request, and after `absoluteMs` in any case. */
export const idleMs = 30 * 60_000
const absoluteMs = 12 * hourMs
/** Minimum time between two writes of the last use. */
const touchEveryMs = 60_000

/** Characters of a user agent that are kept: those of browsers have some 120. */
const deviceLength = 200

/** Sessions per query. */
const lookUpRows = 500

/** A session of a command line that was allowed is fetched within this time, or never. */
const unfetchedMs = commandLoginLimits.validMinutes * minuteMs

/** How long the session of a person lives without an answer of the provider about their groups. */
export const unevaluatedMs = hourMs

/** A browser is left open on a desk, a command line is not: it has no limit without use. */
export const isOver = ({ expires_at, last_used_at, evaluated_at, host }: SessionRow, now: number): boolean =>
  expires_at <= now ||
  (host === null && now - last_used_at > idleMs) ||
  (evaluated_at !== null && now - evaluated_at > unevaluatedMs)

/** A browser session to open. */
interface NewSession {
  actor: Actor
  /**
   * The session that the browser already has. If both use the same key, they form a family, and logging out of one ends
   * both.
   */
  earlier: string | undefined
  /** What the browser presented. */
  by: 'key' | 'login_link' | 'provider' | 'passkey'
  /** Its user agent, as it reports itself. */
  device: string | undefined
  /** Of a person: what the provider said. */
  ofPerson?: PersonSession
  /** Whether the local admin proved just now that it is them. */
  isConfirmed?: boolean
}

/** What the session of a person has besides that of a key. */
export interface PersonSession
  extends Pick<SessionRow, 'authenticated_at' | 'evaluated_at' | 'due_at' | 'provider_session'> {
  /** Latest end, in epoch milliseconds. */
  endsBy: number
  /** What the audit log says of the person, whose name may change later. */
  shown: { name: string; role: string; role_by: string }
  /** Encrypts the tokens of the provider for the session with this id. */
  sealFor(sessionId: string): string
}

const columnsOf = (tokenHash: string, ofPerson: PersonSession | undefined) => ({
  authenticated_at: ofPerson?.authenticated_at ?? null,
  evaluated_at: ofPerson?.evaluated_at ?? null,
  due_at: ofPerson?.due_at ?? null,
  sealed: ofPerson?.sealFor(sessionId({ token_hash: tokenHash })) ?? null,
  provider_session: ofPerson?.provider_session ?? null,
})

/**
 * Returns a session that acts with the actor's key, and the statements that store it, of token and secret only the hashes.
 */
export async function prepareSession(
  { clock, database }: Pick<Deps, 'clock' | 'database'>,
  { actor, earlier, by, device, ofPerson, isConfirmed = false }: NewSession,
): Promise<{ session: SessionProof & { expiresAt: number }; statements: Statement[] }> {
  const { keyId } = actor
  const now = clock.now()
  const [token, secret] = [randomSecret(32), randomSecret(32)]
  const expiresAt = Math.min(now + absoluteMs, ofPerson?.endsBy ?? Infinity)
  const known = earlier === undefined ? undefined : await findSession(database.db, hashKey(earlier))
  const family = known?.key_id === keyId && !isOver(known, now) ? known.family : null
  const tokenHash = hashKey(token)
  const row = {
    token_hash: tokenHash,
    key_id: keyId,
    created_at: now,
    expires_at: expiresAt,
    last_used_at: now,
    family: family ?? uuidV7(now),
    secret_hash: hashKey(secret),
    device: device === undefined ? null : [...sanitize(device)].slice(0, deviceLength).join(''),
    address: actor.ip,
    host: null,
    ...columnsOf(tokenHash, ofPerson),
    ...(isConfirmed ? { authenticated_at: now } : {}),
  }
  const action = {
    action: 'session.create',
    target: keyId,
    before: null,
    after: { by, ...ofPerson?.shown, expires_at: expiresAt },
  }
  return {
    session: { token, secret, expiresAt },
    statements: [insertSessionStatement(database.db, row), ...auditStatements(database, actor, action, now)],
  }
}

/** A session of a command line to open. */
interface NewCommandSession {
  actor: Actor
  /** Hash of its token, and whose machine it is. Its secret is set once the command line fetches it. */
  login: { challenge: string; host: string; address: string | null }
  /** The browser session that allowed it. It ends with it, unless that is merely not used any more. */
  allowedBy: Pick<SessionRow, 'expires_at' | 'authenticated_at' | 'family'>
  ofPerson?: PersonSession
}

/** Returns the statements that store a session for a command line. They fail if it has one. */
export function commandSessionStatements(
  { clock, database }: Pick<Deps, 'clock' | 'database'>,
  { actor, login: { challenge, host, address }, allowedBy, ofPerson }: NewCommandSession,
): Statement[] {
  const now = clock.now()
  // Otherwise a stolen cookie could be renewed forever, by logins that it allows. A person signed in again.
  const expiresAt = Math.min(now + absoluteMs, ofPerson?.endsBy ?? allowedBy.expires_at)
  const row = {
    token_hash: challenge,
    key_id: actor.keyId,
    created_at: now,
    expires_at: expiresAt,
    last_used_at: now,
    family: allowedBy.family ?? uuidV7(now),
    secret_hash: null,
    device: null,
    address,
    host,
    ...columnsOf(challenge, ofPerson),
    ...(ofPerson ? {} : { authenticated_at: allowedBy.authenticated_at }),
  }
  const action = {
    action: 'session.create',
    target: actor.keyId,
    before: null,
    after: { by: 'command_line', host, ...ofPerson?.shown, expires_at: expiresAt },
  }
  return [insertSessionStatement(database.db, row), ...auditStatements(database, actor, action, now)]
}

/** Decides which keys open sessions where people sign in at a provider. */
export interface KeySignIns {
  /** Returns the event to store with the session. Throws AppError `forbidden`. */
  admit(principal: Principal, actor: Actor): Promise<PreparedEvents | undefined>
}

/** Hash of no secret: sessions of older versions have none. */
const noHash = hashKey('')

/** A dashboard sends several requests at once; they share one query. */
const rememberMs = 1_000
/** Bounds the memory. Far more than the browsers in use; the oldest entry is removed first. */
const maxRemembered = 1_000

function makeRoom(remembered: Map<string, unknown> | Set<string>): void {
  if (remembered.size < maxRemembered) return
  for (const first of remembered.keys()) return void remembered.delete(first)
}

/** Finds whom a session acts for: a key or a person. */
export type Holders = Pick<Keyring, 'findById' | 'findStoredById'>

/** Looks up sessions by the token of a request. */
export class Sessions implements Pick<Authenticator, 'bySession' | 'byAccess' | 'knownSession'> {
  readonly #deps: Deps
  readonly #holders: Holders
  readonly #live = new Map<string, { readAt: number; session: SessionRow }>()
  /** Hashes of invalid tokens. An ended session never becomes valid again. */
  readonly #over = new Set<string>()
  readonly #underWay = new Map<string, Promise<SessionRow | undefined>>()

  constructor(deps: Deps, holders: Holders) {
    this.#deps = deps
    this.#holders = holders
  }

  knownSession(token: string): 'live' | 'over' | undefined {
    const tokenHash = hashKey(token)
    if (this.#live.has(tokenHash)) return 'live'
    return this.#over.has(tokenHash) ? 'over' : undefined
  }

  /** Returns the principal of a session; undefined if the session has ended or its key is no longer valid. */
  async bySession({ token, secret, isHidden }: SessionProof): Promise<Principal | 'wrong secret' | undefined> {
    const session = await this.#find(hashKey(token))
    if (!session) return undefined
    // The secret of a command line buys access tokens, which are short-lived, and nothing else.
    const isRight = session.host === null && sameHash(hashKey(secret), session.secret_hash ?? noHash)
    return isRight ? this.#principalOf(session, !isHidden) : 'wrong secret'
  }

  async byAccess(presented: string): Promise<Principal | 'over' | undefined> {
    const access = openAccess(this.#deps, presented)
    if (!access) return undefined
    const { tokenHash, expiresAt } = access
    if (expiresAt <= this.#deps.clock.now() || this.#over.has(tokenHash)) return 'over'
    const session = await this.#find(tokenHash)
    return (session && (await this.#principalOf(session))) ?? 'over'
  }

  async #find(tokenHash: string): Promise<SessionRow | undefined> {
    const known = this.#live.get(tokenHash)
    const isFresh = known !== undefined && this.#deps.clock.monotonic() - known.readAt < rememberMs
    return isFresh ? known.session : this.#readOnce(tokenHash)
  }

  async #principalOf(session: SessionRow, isUse = true): Promise<Principal | undefined> {
    if (isUse) await this.#touch(session)
    const principal = this.#holders.findById(session.key_id)
    if (!principal) return undefined
    const { authenticated_at: authenticatedAt, token_hash, host } = session
    return {
      ...principal,
      session: token_hash,
      ...(host === null ? {} : { isCommandLine: true }),
      ...(authenticatedAt === null ? {} : { authenticatedAt }),
    }
  }

  /** Ends the session and, of a browser, its family. */
  async end(tokenHash: string): Promise<void> {
    const { database } = this.#deps
    await database.batch([endFamilyStatement(database.db, tokenHash)], { isControl: true })
    this.forget()
  }

  /** Reads each session again when it is used next, because this process ended some. */
  forget(): void {
    this.#live.clear()
  }

  #readOnce(tokenHash: string): Promise<SessionRow | undefined> {
    const underWay = this.#underWay.get(tokenHash)
    if (underWay) return underWay
    const reading = this.#read(tokenHash).finally(() => this.#underWay.delete(tokenHash))
    this.#underWay.set(tokenHash, reading)
    return reading
  }

  async #read(tokenHash: string): Promise<SessionRow | undefined> {
    const { database, clock } = this.#deps
    const readAt = clock.monotonic()
    const session = await findSession(database.db, tokenHash)
    const now = clock.now()
    this.#live.delete(tokenHash)
    if (!session || isOver(session, now)) {
      makeRoom(this.#over)
      this.#over.add(tokenHash)
      return undefined
    }
    // Another process may have just created the key. Read here, concurrent requests share the query.
    await this.#holders.findStoredById(session.key_id)
    makeRoom(this.#live)
    this.#live.set(tokenHash, { readAt, session })
    return session
  }

  async #touch(session: SessionRow): Promise<void> {
    const { database, clock, log } = this.#deps
    const now = clock.now()
    if (now - session.last_used_at <= touchEveryMs) return
    // Before waiting, because concurrent requests share the row.
    session.last_used_at = now
    // With a full disk the write fails, and the operator must still be able to stop the agent that filled it.
    await touchSession(database.db, session.token_hash, now).catch((fault) =>
      log.warn({ err: fault }, 'the last use of a session could not be stored'),
    )
  }
}

/** Returns the sessions that have not ended. The caller closes the streams of the others. */
export async function liveSessions(deps: Deps, sessions: ReadonlySet<string>): Promise<Set<string>> {
  const now = deps.clock.now()
  const asked = [...sessions]
  const live = new Set<string>()
  for (let from = 0; from < asked.length; from += lookUpRows) {
    const rows = await findSessions(deps.database.db, asked.slice(from, from + lookUpRows))
    for (const row of rows) if (!isOver(row, now)) live.add(row.token_hash)
  }
  return live
}

export async function forgetStaleSessions(deps: Deps): Promise<void> {
  const now = deps.clock.now()
  await deleteStaleSessions(deps.database.db, {
    expiredBefore: now,
    idleBefore: now - idleMs,
    unevaluatedBefore: now - unevaluatedMs,
    unfetchedBefore: now - unfetchedMs,
  })
  await deleteLoginCodesBefore(deps.database.db, now)
}
