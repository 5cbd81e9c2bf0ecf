import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { clientAddress, requestActor } from '../../http/actor.ts'
import { isForeignPage, type Principal, sessionToken } from '../../http/auth.ts'
import { assertFresh } from '../../http/fresh.ts'
import type { Router } from '../../http/route.ts'
import { deviceOf, sendSession } from '../../http/session-reply.ts'
import type { Sessions } from '../keys/sessions.ts'
import { isOfLocalAdmin, localSession, notOfLocalAdmin, type PasskeySignIn } from './passkey-sign-in.ts'
import { type Address, passkeySite, type Site } from './passkey-site.ts'

const foreignPage = 'Passkeys work only on the pages of this service.'
const notOfCommandLine =
  'A command line that was logged in removes no passkey: do it in a browser, or with the local admin key.'

interface PasskeyRoutes {
  passkeySignIn: PasskeySignIn
  sessions: Pick<Sessions, 'forget'>
}

export function mountPasskeys(router: Router, deps: Deps, { passkeySignIn, sessions }: PasskeyRoutes): void {
  const { clock, config } = deps

  function siteOf(address: Address): Site {
    const site = passkeySite(config, address)
    if (typeof site === 'string') throw new AppError('conflict', site)
    return site
  }

  /** Browsers send the origin of the page with each POST. Other programs could send it too, but no page of another origin. */
  function siteOfPage(request: Parameters<typeof isForeignPage>[0]): Site {
    if (isForeignPage(request)) throw new AppError('forbidden', foreignPage)
    const site = siteOf(request)
    if (request.headers.origin !== site.origin) throw new AppError('forbidden', foreignPage)
    return site
  }

  /** The session comes first: that a key has none is not the fault of the address. */
  function siteFor(principal: Principal, request: Address): Site {
    localSession(principal)
    return siteOf(request)
  }

  router.handle('listPasskeys', async ({ principal, request }) => {
    const site = passkeySite(config, request)
    const unavailable = typeof site === 'string' ? site : isOfLocalAdmin(principal) ? null : notOfLocalAdmin
    return { passkeys: await passkeySignIn.list(), unavailable }
  })

  router.handle('startPasskey', ({ body, principal, request }) =>
    passkeySignIn.startNew(principal, body.name, siteFor(principal, request)),
  )

  router.handle('addPasskey', ({ body, principal, request }) =>
    passkeySignIn.finishNew(principal, body, siteFor(principal, request), requestActor(request)),
  )

  router.handle('removePasskey', async ({ params, principal, request }) => {
    // A copied token of a command line must not end the confirmations of the local admin.
    if (principal.isCommandLine) throw new AppError('forbidden', notOfCommandLine)
    assertFresh(principal, clock.now())
    await passkeySignIn.remove(params.id, requestActor(request))
    sessions.forget()
    return { ok: true }
  })

  router.handle('startPasskeySignIn', ({ request }) => passkeySignIn.start(clientAddress(request), siteOfPage(request)))

  router.handle('finishPasskeySignIn', async ({ body, request }, reply) => {
    const { session, principal } = await passkeySignIn.finish(body, siteOfPage(request), {
      address: clientAddress(request),
      actor: (opened) => requestActor(request, opened),
      earlier: sessionToken(request),
      device: deviceOf(request),
    })
    return sendSession(request, reply, principal, session, clock.now())
  })

  router.handle('startConfirmation', ({ principal, request }) =>
    passkeySignIn.startConfirmation(principal, siteFor(principal, request)),
  )

  router.handle('confirmSession', async ({ body, principal, request }) => {
    await passkeySignIn.confirm(principal, body, siteFor(principal, request), requestActor(request))
    sessions.forget()
    return { ok: true }
  })
}
