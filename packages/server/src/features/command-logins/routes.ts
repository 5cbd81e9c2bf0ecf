import { commandLoginLimits, commandLoginPath } from '@wardline/contract'
import type { FastifyRequest } from 'fastify'
import { isoTime } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { clientAddress, requestActor } from '../../http/actor.ts'
import { isForeignPage, type Principal, type RefusalWatch } from '../../http/auth.ts'
import type { Router } from '../../http/route.ts'
import type { Sessions } from '../keys/sessions.ts'
import { type CommandLogins, loginGone, sessionGone } from './command-logins.ts'

interface CommandLoginRoutes {
  commandLogins: CommandLogins
  sessions: Pick<Sessions, 'forget'>
  /** Counts unknown tokens like invalid keys. */
  watch: RefusalWatch
}

/** Otherwise a command line could allow the next one, and a stolen token would live forever. */
function assertBrowser({ session, isCommandLine }: Principal): void {
  if (session !== undefined && !isCommandLine) return
  throw new AppError('forbidden', 'Only a browser session allows a command line, on the page of this service.')
}

/** No page begins, fetches or renews a login. */
function assertProgram(request: FastifyRequest): void {
  if (isForeignPage(request)) throw new AppError('forbidden', 'Only command lines do that, no page of another site.')
}

export function mountCommandLogins(
  router: Router,
  deps: Deps,
  { commandLogins, sessions, watch }: CommandLoginRoutes,
): void {
  function refuseToken(request: FastifyRequest, fault: AppError): never {
    const waitSeconds = watch.badKey(clientAddress(request))
    if (waitSeconds === undefined) throw fault
    throw new AppError('too_many_failures', 'Too many invalid keys or tokens came from this address.', waitSeconds)
  }

  /** Guesses must not cost a query each. */
  function refuseGuesser(request: FastifyRequest): void {
    if (watch.isWaiting(clientAddress(request))) refuseToken(request, sessionGone())
  }

  const baseOf = ({ protocol, host }: FastifyRequest): string => deps.config.publicUrl ?? `${protocol}://${host}`

  const allowing = (principal: Principal, request: FastifyRequest) => {
    assertBrowser(principal)
    const { origin } = new URL(baseOf(request))
    return { principal, actor: requestActor(request), address: clientAddress(request), origin }
  }

  router.handle('startCommandLogin', async ({ body, request }) => {
    assertProgram(request)
    const { code, expiresAt } = await commandLogins.start(body, clientAddress(request))
    // Browsers do not send the part after #. A code that is typed is not in the link: a link of an attacker must not have it.
    const url = `${baseOf(request).replace(/\/+$/, '')}${commandLoginPath}${body.loopback ? `#${code}` : ''}`
    return { code, url, interval_seconds: commandLoginLimits.intervalSeconds, expires_at: isoTime(expiresAt) }
  })

  router.handle('findCommandLogin', async ({ body, principal, request }) => {
    assertBrowser(principal)
    const { host, address, port, confirm, created_at, expires_at } = await commandLogins.find(body.code, principal)
    return {
      host,
      address: address ?? '',
      same_address: address === clientAddress(request),
      loopback: port !== null,
      confirm: confirm === 1,
      created_at: isoTime(created_at),
      expires_at: isoTime(expires_at),
    }
  })

  router.handle('approveCommandLogin', ({ body, principal, request }) =>
    commandLogins.approve(body.code, allowing(principal, request)),
  )

  router.handle('signInCommandLogin', ({ body, principal, request }) =>
    commandLogins.signIn(body, allowing(principal, request)),
  )

  router.handle('denyCommandLogin', ({ body, principal }) => {
    assertBrowser(principal)
    return commandLogins.deny(body.code, principal)
  })

  router.handle('finishCommandLogin', async ({ body, request }) => {
    assertProgram(request)
    refuseGuesser(request)
    const session = await commandLogins.finish(body)
    if (session === undefined) return refuseToken(request, loginGone())
    return session === 'pending' ? { pending: true } : { pending: false, session }
  })

  router.handle('renewCommandLogin', async ({ body, request }) => {
    assertProgram(request)
    refuseGuesser(request)
    // It may have ended one.
    const renewed = await commandLogins.renew(body).finally(() => sessions.forget())
    return renewed ?? refuseToken(request, sessionGone())
  })
}
