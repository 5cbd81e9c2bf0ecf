import { type OpenSession, peopleLimits } from '@wardline/contract'
import type { FastifyRequest } from 'fastify'
import { isoTime } from '../../clock.ts'
import type { Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { clientAddress, requestActor } from '../../http/actor.ts'
import { isForeignPage, type Principal, sessionToken } from '../../http/auth.ts'
import { assertFresh } from '../../http/fresh.ts'
import type { Router } from '../../http/route.ts'
import { deviceOf, sendSession } from '../../http/session-reply.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import {
  countSessionsOf,
  endFamilyStatement,
  endSessionsStatement,
  findSessionById,
  readSessionsOf,
  type SessionRow,
  sessionId,
} from '../keys/session-statements.ts'
import { idleMs, isOver, type Sessions } from '../keys/sessions.ts'
import { requirePerson, viewPerson } from '../people/people.ts'
import { endedStatement, readPeople } from '../people/person-statements.ts'
import type { RoleTable } from '../people/role-mappings.ts'
import type { Logout } from './logout.ts'
import type { PasskeySignIn } from './passkey-sign-in.ts'
import { passkeySite } from './passkey-site.ts'
import type { Opening, PeopleSignIn } from './sign-in.ts'

interface SignInRoutes {
  peopleSignIn: PeopleSignIn
  passkeySignIn: Pick<PasskeySignIn, 'isOffered'>
  providerLogout: Logout
  roleTable: RoleTable
  sessions: Pick<Sessions, 'forget'>
}

export function mountSignIn(router: Router, deps: Deps, parts: SignInRoutes): void {
  const { database, clock } = deps
  const { peopleSignIn, passkeySignIn, providerLogout, roleTable, sessions } = parts

  /** Returns the sessions that end with this one: of a browser its other ones, and the command lines that it allowed. */
  const endingWith = (row: SessionRow, rows: readonly SessionRow[]): string[] =>
    row.host !== null || row.family === null
      ? []
      : rows.filter((other) => other !== row && other.family === row.family).map(sessionId)

  const viewSession = (row: SessionRow, rows: readonly SessionRow[], { session }: Principal): OpenSession => ({
    id: sessionId(row),
    ends: endingWith(row, rows),
    current: row.token_hash === session,
    device: row.device,
    host: row.host,
    address: row.address,
    created_at: isoTime(row.created_at),
    last_used_at: isoTime(row.last_used_at),
    expires_at: isoTime(row.expires_at),
  })

  async function sessionsOf(keyId: string, principal: Principal): Promise<OpenSession[]> {
    const now = clock.now()
    const open = (await readSessionsOf(database.db, keyId)).filter((row) => !isOver(row, now))
    return open.map((row) => viewSession(row, open, principal))
  }

  async function end(keyId: string, ended: readonly Statement[], actor: Actor): Promise<number> {
    const action = { action: 'session.end', target: keyId, before: null, after: null }
    const statements = [...ended, ...auditStatements(database, actor, action, clock.now())]
    const open = await readSessionsOf(database.db, keyId)
    await database.batch(statements, { isControl: true })
    sessions.forget()
    return open.length
  }

  const viewSignIn = async (request: FastifyRequest) => ({
    ...(await peopleSignIn.view()),
    passkeys: await passkeySignIn.isOffered(passkeySite(deps.config, request)),
  })

  router.handle('getSignIn', ({ request }) => viewSignIn(request))

  router.handle('setSignIn', async ({ body, principal, request }) => {
    assertFresh(principal, clock.now())
    await peopleSignIn.setPeopleOnly(body.people_only, requestActor(request))
    return viewSignIn(request)
  })

  router.handle('startSignIn', async ({ query, request }) => {
    if (isForeignPage(request)) throw new AppError('forbidden', 'People sign in only on the pages of this service.')
    return peopleSignIn.start(clientAddress(request), query.confirm === 'true')
  })

  router.handle('finishSignIn', async ({ body, request }, reply) => {
    if (isForeignPage(request)) throw new AppError('forbidden', 'People sign in only on the pages of this service.')
    const opening: Opening = {
      address: clientAddress(request),
      actor: ({ keyId, name, scope }) => ({ ...requestActor(request), keyId, name, scope }),
      earlier: sessionToken(request),
      device: deviceOf(request),
    }
    const { session, principal } = await peopleSignIn.finish(body, opening)
    return sendSession(request, reply, principal, session, clock.now())
  })

  router.handle('backchannelLogout', async ({ body, request }) => {
    // A page can send a form; a provider is a server.
    if (isForeignPage(request)) throw new AppError('forbidden', 'Only a provider sends logout tokens.')
    const bytes = body as unknown as Buffer
    if (bytes.length > peopleLimits.logoutToken) {
      throw new AppError('too_large', `The body has more than ${peopleLimits.logoutToken} bytes.`)
    }
    const token = new URLSearchParams(bytes.toString('utf8')).get('logout_token')
    if (token === null) throw new AppError('invalid', 'The body must have logout_token.')
    if (await providerLogout.byToken(token)) sessions.forget()
    return { ok: true }
  })

  router.handle('listPeople', async () => {
    const now = clock.now()
    const rows = await readPeople(database.db)
    const ids = rows.map(({ id }) => id)
    const counts = await countSessionsOf(database.db, ids, { now, idleBefore: now - idleMs })
    return { people: rows.map((row) => viewPerson(row, counts.get(row.id) ?? 0)) }
  })

  router.handle('getPerson', async ({ params, principal }) => {
    const row = await requirePerson(database.db, params.id)
    const open = await sessionsOf(row.id, principal)
    return { person: viewPerson(row, open.length), groups: JSON.parse(row.groups) as string[], sessions: open }
  })

  router.handle('endPersonSessions', async ({ params, request }) => {
    const { id } = await requirePerson(database.db, params.id)
    const ended = [endSessionsStatement(database.db, id), endedStatement(database.db, id, clock.now())]
    return { ok: true, ended: await end(id, ended, requestActor(request)) }
  })

  router.handle('listOwnSessions', async ({ principal }) => ({
    sessions: await sessionsOf(principal.keyId, principal),
  }))

  router.handle('endSession', async ({ params, principal, request }) => {
    const row = await findSessionById(database.db, params.id)
    if (!row || (row.key_id !== principal.keyId && principal.scope !== 'admin')) {
      throw new AppError('not_found', `No session of yours with id ${params.id}; GET /api/sessions lists them.`)
    }
    await end(row.key_id, [endFamilyStatement(database.db, row.token_hash)], requestActor(request))
    return { ok: true }
  })

  router.handle('getRoleMappings', () => roleTable.read())

  router.handle('setRoleMappings', ({ body, principal, request }) => {
    assertFresh(principal, clock.now())
    return roleTable.replace(body, requestActor(request))
  })
}
