import { checkHeader } from '@wardline/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Deps } from '../../deps.ts'
import { clientAddress, requestActor } from '../../http/actor.ts'
import type { Principal } from '../../http/auth.ts'
import { assertFresh } from '../../http/fresh.ts'
import type { Handler, Input, Router } from '../../http/route.ts'
import { type Piece, sliceUnits, workLane } from '../../work-turns.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import type { Ingest } from '../events/ingest.ts'
import type { Quotas } from '../keys/quotas.ts'
import type { CheckResult, DecoyChecks } from './check.ts'
import { createHoneypot, deleteHoneypot, listHoneypots, rotateHoneypot, viewHoneypot } from './honeypots.ts'
import { createIgnore, deleteIgnore, listIgnores } from './ignores.ts'
import { type Asking, exportAllowList, notePlanted, testDecoy } from './inventory.ts'
import { decoyPresets } from './presets.ts'

interface HoneypotRoutes {
  protectionAlerts: ProtectionAlerts
  decoyChecks: DecoyChecks
  ingest: Ingest
  quotas: Pick<Quotas, 'takeCheck' | 'chargeChecks' | 'takeEvents' | 'chargeEvents'>
}

type Checking = Pick<Input<'checkKey'>, 'principal' | 'request'>

const askingOf = (request: FastifyRequest): Asking => ({ actor: requestActor(request), team: request.principal.team })

/** Concurrent long checks per key: more would only wait for each other. */
const maxChecks = 8

export function mountHoneypots(
  router: Router,
  deps: Deps,
  { decoyChecks: checks, ingest, quotas, protectionAlerts: protection }: HoneypotRoutes,
): void {
  const { database } = deps
  const { db } = database

  router.handle('listHoneypots', async ({ query, principal }) => ({
    honeypots: await database.scan(principal.keyId, (scanned) =>
      listHoneypots(scanned, {
        hasDetails: query.include === 'details',
        instanceId: query.instance_id,
        state: query.state,
        team: principal.team,
      }),
    ),
  }))

  router.handle('listHoneypotPresets', () => ({ presets: [...decoyPresets] }))

  router.handle('getHoneypot', ({ params, principal }) => viewHoneypot(db, params.id, principal.team))

  router.handle('createHoneypot', async ({ body, principal, request }) => {
    // The response has the value of the decoy.
    assertFresh(principal, deps.clock.now())
    const created = await createHoneypot(deps, body, askingOf(request))
    await checks.refresh()
    return created
  })

  router.handle('exportDecoyAllowList', ({ principal }) => database.scan(principal.keyId, exportAllowList))

  router.handle('listDecoyIgnores', async () => ({ ignores: await listIgnores(db, deps.clock.now()) }))

  router.handle('createDecoyIgnore', async ({ body, request }) => ({
    ok: true,
    id: await createIgnore(deps, protection, body, requestActor(request)),
  }))

  router.handle('deleteDecoyIgnore', async ({ params, request }) => {
    await deleteIgnore(deps, params.id, requestActor(request))
    return { ok: true, id: params.id }
  })

  router.handle('noteDecoyPlanted', async ({ params, body, principal, request }) => {
    const piece = workLane.open(principal.keyId, { max: maxChecks })
    try {
      await notePlanted(deps, params.id, body, askingOf(request), (text) => checks.holdsKey(text, piece))
    } finally {
      piece.end()
    }
    return { ok: true, id: params.id }
  })

  router.handle('rotateDecoy', async ({ params, principal, request }) => {
    assertFresh(principal, deps.clock.now())
    const rotated = await rotateHoneypot(deps, params.id, askingOf(request))
    await checks.refresh()
    return rotated
  })

  router.handle('testDecoy', async ({ params, request }) => ({
    ok: true,
    id: params.id,
    event_id: await testDecoy(deps, ingest, params.id, askingOf(request)),
  }))

  router.handle('deleteHoneypot', async ({ params, request }) => {
    await deleteHoneypot(deps, protection, params.id, askingOf(request))
    await checks.refresh()
    return { ok: true, id: params.id }
  })

  /** A check costs one unit of quota, and one more per slice of work. */
  const takeCheck = ({ keyId }: Principal) => quotas.takeCheck(keyId)
  async function paid<Result>({ principal: { keyId }, request }: Checking, work: (piece: Piece) => Promise<Result>) {
    const isAbandoned = () => request.raw.socket.destroyed
    const piece = workLane.open(keyId, { max: maxChecks, isAbandoned })
    try {
      return await work(piece)
    } finally {
      piece.end()
      quotas.chargeChecks(keyId, Math.floor(piece.spent() / sliceUnits))
    }
  }

  function answer({ matched, isPartial }: CheckResult, reply: FastifyReply) {
    if (isPartial) reply.header(checkHeader, 'partial')
    return { matched }
  }

  const checkKey: Handler<'checkKey'> = async ({ body: { key, meta }, principal, request }, reply) => {
    const address = clientAddress(request)
    const check = (piece: Piece) => checks.checkKey(key, { meta, principal, address, piece })
    return answer(await paid({ principal, request }, check), reply)
  }
  router.handle('checkKey', checkKey, takeCheck)

  const checkPath: Handler<'checkPath'> = async ({ body: { path, meta }, principal, request }, reply) => {
    const address = clientAddress(request)
    const check = (piece: Piece) => checks.checkPath(path, { meta, principal, address, piece })
    return answer(await paid({ principal, request }, check), reply)
  }
  router.handle('checkPath', checkPath, takeCheck)

  // Outputs count as events: what tools return must not use up the checks that allow calls.
  router.handle('checkOutput', async ({ body: { text, of, meta }, principal, request }) => {
    const { keyId } = principal
    quotas.takeEvents(keyId, 1, 0, Buffer.byteLength(text))
    const piece = workLane.open(`outputs of ${keyId}`, { max: maxChecks })
    try {
      await checks.checkOutput(text, of, { meta, principal, address: clientAddress(request), piece })
    } finally {
      piece.end()
      quotas.chargeEvents(keyId, Math.floor(piece.spent() / sliceUnits))
    }
    return { ok: true }
  })
}
