import type { Deps } from '../../deps.ts'
import { clientAddress, requestActor } from '../../http/actor.ts'
import type { Principal } from '../../http/auth.ts'
import type { Handler, Input, Router } from '../../http/route.ts'
import { type Piece, sliceUnits, workLane } from '../../work-turns.ts'
import type { Quotas } from '../keys/quotas.ts'
import type { DecoyChecks } from './check.ts'
import { createHoneypot, deleteHoneypot, listHoneypots, viewHoneypot } from './honeypots.ts'
import { decoyPresets } from './presets.ts'

interface HoneypotRoutes {
  decoyChecks: DecoyChecks
  quotas: Pick<Quotas, 'takeCheck' | 'chargeChecks'>
}

type Asking = Pick<Input<'checkKey'>, 'principal' | 'request'>

/** Checks of one key that take more than a slice, at a time: more would only wait for each other. */
const maxChecks = 8

export function mountHoneypots(router: Router, deps: Deps, { decoyChecks: checks, quotas }: HoneypotRoutes): void {
  const { database } = deps
  const { db } = database

  router.handle('listHoneypots', async ({ query, principal }) => ({
    honeypots: await database.scan(principal.keyId, (scanned) =>
      listHoneypots(scanned, query.instance_id, query.include === 'details'),
    ),
  }))

  router.handle('listHoneypotPresets', () => ({ presets: [...decoyPresets] }))

  router.handle('getHoneypot', ({ params }) => viewHoneypot(db, params.id))

  router.handle('createHoneypot', async ({ body, request }) => {
    const created = await createHoneypot(deps, body, requestActor(request))
    await checks.refresh()
    return created
  })

  router.handle('deleteHoneypot', async ({ params, request }) => {
    await deleteHoneypot(deps, params.id, requestActor(request))
    await checks.refresh()
    return { ok: true, id: params.id }
  })

  /** A check costs one of the quota for asking, and one for each slice of work. */
  const takeCheck = ({ keyId }: Principal) => quotas.takeCheck(keyId)
  async function paid<Result>({ principal: { keyId }, request }: Asking, work: (piece: Piece) => Promise<Result>) {
    const isAbandoned = () => request.raw.socket.destroyed
    const piece = workLane.open(keyId, { max: maxChecks, isAbandoned })
    try {
      return await work(piece)
    } finally {
      piece.end()
      quotas.chargeChecks(keyId, Math.floor(piece.spent() / sliceUnits))
    }
  }

  const checkKey: Handler<'checkKey'> = ({ body: { key, meta }, principal, request }) => {
    const address = clientAddress(request)
    return paid({ principal, request }, async (piece) => ({
      matched: await checks.checkKey(key, { meta, principal, address, piece }),
    }))
  }
  router.handle('checkKey', checkKey, takeCheck)

  const checkPath: Handler<'checkPath'> = ({ body: { path, meta }, principal, request }) => {
    const address = clientAddress(request)
    return paid({ principal, request }, async (piece) => ({
      matched: await checks.checkPath(path, { meta, principal, address, piece }),
    }))
  }
  router.handle('checkPath', checkPath, takeCheck)
}
