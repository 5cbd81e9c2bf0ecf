import type { FastifyRequest } from 'fastify'
import { isoTime } from '../../clock.ts'
import { rowsOf } from '../../db/database.ts'
import { changeGuarded } from '../../db/guarded-change.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { clientAddress, requestActor } from '../../http/actor.ts'
import { isForeignPage, type Principal, type RefusalWatch, sessionProof, sessionToken } from '../../http/auth.ts'
import { assertFresh } from '../../http/fresh.ts'
import type { Router } from '../../http/route.ts'
import { deviceOf, sendSession, setCookie } from '../../http/session-reply.ts'
import { isLocalAdmin } from './bootstrap.ts'
import type { Keyring } from './keyring.ts'
import { createKey, listKeys, revokeKey, rotateKey, setKeyQuotas } from './keys.ts'
import { createLoginCode, keyOfLoginCode, loginUrl, redeemStatements } from './login-codes.ts'
import { type KeySignIns, prepareSession, type Sessions } from './sessions.ts'
import { SignIns } from './sign-ins.ts'

/** Counts an invalid code like an invalid key, so that an address that guesses codes gets 429. */
function refuseCode(request: FastifyRequest, watch: RefusalWatch): never {
  const waitSeconds = watch.badKey(clientAddress(request))
  const sentence = 'The login link was used, has expired or is invalid: get a new one with "wardline login".'
  if (waitSeconds === undefined) throw new AppError('unauthorized', sentence)
  throw new AppError('too_many_failures', sentence, waitSeconds)
}

const sessionView = (principal: Principal) => {
  const { keyId, scope, name, team, person, passkey, confirmsByPasskey, authenticatedAt } = principal
  return {
    key_id: keyId,
    scope,
    name,
    ...(team ? { tags: [...team] } : {}),
    ...(person ? { person: { ...person, tags: team ? [...team] : null }, confirms_by: 'provider' as const } : {}),
    ...(passkey ? { passkey } : {}),
    ...(confirmsByPasskey ? { confirms_by: 'passkey' as const } : {}),
    ...(authenticatedAt === undefined ? {} : { authenticated_at: isoTime(authenticatedAt) }),
  }
}

interface KeyRoutes {
  keyring: Keyring
  sessions: Pick<Sessions, 'end' | 'bySession'>
  /** Counts invalid login codes like invalid keys. */
  watch: RefusalWatch
  keySignIns: KeySignIns
  /** Returns what finds the address that ends a person's session at the provider. */
  prepareLogout(token: string): Promise<(() => Promise<string | undefined>) | undefined>
}

export function mountKeys(
  router: Router,
  deps: Deps,
  { keyring, sessions, watch, keySignIns, prepareLogout }: KeyRoutes,
): void {
  const { database } = deps

  const signIns = new SignIns(deps)

  /** A valid code whose key is no longer valid is refused, but is no guess. */
  async function principalOfLink(request: FastifyRequest, code: string): Promise<Principal> {
    const keyId = await keyOfLoginCode(database.db, code, deps.clock.now())
    if (keyId === undefined) return refuseCode(request, watch)
    const principal = await keyring.findStoredById(keyId)
    if (!principal) throw new AppError('unauthorized', 'The key of the login link is no longer valid.')
    return principal
  }

  function assertMayUseLink(request: FastifyRequest): void {
    if (isForeignPage(request)) {
      throw new AppError('forbidden', 'A login link works only on the pages of this service.')
    }
    if (watch.isWaiting(clientAddress(request))) refuseCode(request, watch)
  }

  /** Returns the principal of the browser's session, which needs both of its halves. */
  async function currentSession(request: FastifyRequest): Promise<Principal | undefined> {
    const proof = sessionProof(request)
    const current = proof && (await sessions.bySession(proof))
    return current === 'wrong secret' ? undefined : current
  }

  /** A page of another site can open a link with its own code here, and must not replace the user's session so. */
  async function assertSignedOut(request: FastifyRequest): Promise<void> {
    const current = await currentSession(request)
    if (!current) return
    throw new AppError(
      'conflict',
      `This browser is signed in with the key ${current.name} (${current.scope}): sign out first.`,
    )
  }

  router.handle('listKeys', async () => ({ keys: await listKeys(database.db) }))

  router.handle('createKey', async ({ body, principal, request }) => {
    assertFresh(principal, deps.clock.now())
    const created = await createKey(database, body, requestActor(request), deps.clock.now())
    await keyring.refresh()
    return created
  })

  router.handle('rotateKey', async ({ params, body, principal, request }) => {
    assertFresh(principal, deps.clock.now())
    const created = await rotateKey(database, params.id, body.overlap_seconds, requestActor(request), deps.clock.now())
    await keyring.refresh()
    return created
  })

  router.handle('setKeyQuotas', async ({ params, body, principal, request }) => {
    assertFresh(principal, deps.clock.now())
    await setKeyQuotas(deps.database, params.id, body, requestActor(request), deps.clock.now())
    await keyring.refresh()
    return { ok: true, id: params.id, quotas: body }
  })

  router.handle('revokeKey', async ({ params, request }) => {
    await revokeKey(database, params.id, requestActor(request), deps.clock.now())
    await keyring.refresh()
    return { ok: true, id: params.id }
  })

  router.handle('createSession', async ({ principal, request }, reply) => {
    // Otherwise a stolen cookie could be renewed forever.
    if (principal.session !== undefined) {
      throw new AppError('unauthorized', 'Only a key opens a session: send it in the header X-Monitor-Key.')
    }
    signIns.take(principal.keyId)
    const actor = requestActor(request)
    const alarm = await keySignIns.admit(principal, actor)
    const { session, statements } = await prepareSession(deps, {
      actor,
      earlier: sessionToken(request),
      by: 'key',
      device: deviceOf(request),
      isConfirmed: isLocalAdmin(principal),
    })
    const all = [...(alarm?.statements ?? []), ...statements]
    // Like a control change, because an operator must be able to sign in when the disk is full.
    const results = await database.batch(all, { isControl: true })
    alarm?.stored(rowsOf(all, results))
    return sendSession(request, reply, principal, session, deps.clock.now())
  })

  const { traceUrl } = deps.config
  const configured = traceUrl === undefined ? {} : { trace_url: traceUrl }
  router.handle('getSession', ({ principal }) => ({ ...sessionView(principal), ...configured }))

  router.handle('createLoginLink', async ({ principal, request }) => {
    if (principal.session !== undefined) {
      throw new AppError(
        'unauthorized',
        'A login link needs a key, not a session: send the key in the header X-Monitor-Key.',
      )
    }
    signIns.take(principal.keyId)
    const now = deps.clock.now()
    const { code, expiresAt } = await createLoginCode(database, principal.keyId, requestActor(request), now)
    const base = deps.config.publicUrl ?? `${request.protocol}://${request.host}`
    return { ok: true, url: loginUrl(base, code), expires_at: isoTime(expiresAt) }
  })

  router.handle('previewLoginLink', async ({ body, request }) => {
    assertMayUseLink(request)
    return sessionView(await principalOfLink(request, body.code))
  })

  router.handle('redeemLoginLink', async ({ body, request }, reply) => {
    assertMayUseLink(request)
    await assertSignedOut(request)
    // The code is used up together with the opening of the session, so that a failure leaves it valid.
    return changeGuarded(database, async () => {
      const principal = await principalOfLink(request, body.code)
      const actor = requestActor(request, principal)
      const alarm = await keySignIns.admit(principal, actor)
      const opening = { actor, earlier: sessionToken(request), by: 'login_link', device: deviceOf(request) } as const
      const { session, statements } = await prepareSession(deps, opening)
      const redeeming = redeemStatements(database, body.code, deps.clock.now())
      return {
        statements: [...redeeming, ...(alarm?.statements ?? []), ...statements],
        result: (rows) => {
          alarm?.stored(rows)
          return sendSession(request, reply, principal, session, deps.clock.now())
        },
      }
    })
  })

  router.handle('deleteSession', async ({ principal, request }, reply) => {
    // Otherwise the holder of the cookie alone could end the session with any valid key.
    const ofBrowser = (await currentSession(request))?.session
    const session = principal.session ?? ofBrowser
    const token = session !== undefined && session === ofBrowser ? sessionToken(request) : undefined
    const findUrl = token && (await prepareLogout(token))
    if (session !== undefined) await sessions.end(session)
    setCookie(request, reply, '', 0)
    const url = findUrl && (await findUrl())
    return { ok: true, ...(url ? { logout_url: url } : {}) }
  })
}
