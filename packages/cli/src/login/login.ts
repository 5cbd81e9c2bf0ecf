import { hostname } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { type Client, commandLoginLimits, createClient, type ReplyOf, WardlineError } from '@wardline/contract'
import { cutText, safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { Failure } from '../exit.ts'
import { accessOf, granted, loginsFile, newSecret, readLogins, setLogin } from '../service/logins.ts'
import { address, withService } from '../service/options.ts'
import { sendHttp } from '../service/send-http.ts'
import {
  currentSettings,
  findLoggedIn,
  longestSentence,
  notWardline,
  refusal,
  unreachable,
} from '../service/service.ts'
import { isLocal, type ServiceFlags } from '../service/settings.ts'
import { printLink } from './login-link.ts'
import { listen } from './loopback.ts'
import { hasBrowser, openBrowser } from './open-browser.ts'
import { textOf, viewOf } from './whoami.ts'

interface LoginFlags extends ServiceFlags {
  browser: boolean
  confirm?: boolean
}

type Started = ReplyOf<'startCommandLogin'>
type Granted = ReplyOf<'renewCommandLogin'>

const say = (text: string): void => console.error(text)

/** Calls without a key, which the service answers to everybody. Throws Failure. */
const openCall = (url: string): Client => {
  const client = createClient({ url, send: sendHttp })
  return (name, call) =>
    client(name, call).catch((fault) => {
      if (!(fault instanceof WardlineError)) throw fault
      if (fault.code === 'unfit_answer') throw notWardline(url, fault.message)
      // There is no key that could be wrong.
      if (fault.status === 401) throw new Failure(cutText(fault.message, longestSentence), fault.code, 'refused')
      throw fault.status === 0 ? unreachable(url, fault) : refusal(url, 'this command line', fault)
    })
}

/**
 * The address comes from a server and is given to a program that opens anything. A server that passes the requests on to
 * another one would lead the person there, to a page that they trust.
 */
function pageOf({ url: given }: Started, url: string): URL {
  const page = URL.canParse(given) ? new URL(given) : undefined
  if (!page || !/^https?:$/.test(page.protocol) || page.username !== '' || page.password !== '') {
    throw notWardline(url, 'it names no page to open')
  }
  if (page.origin === url) return page
  const named = sanitize(cutText(page.origin, longestSentence))
  const fix =
    page.protocol === 'http:' && url.startsWith('https:')
      ? `set WARDLINE_PUBLIC_URL of the service to ${url}`
      : `if that is your service, log in there: \`wardline login ${named}\``
  throw new Failure(`You log in at ${url}, and its page is at ${named}: ${fix}.`, 'other_address', 'refused')
}

/** Without TLS, others on the network read the token of the session. */
function warnWithoutTls(url: string): void {
  const { protocol, hostname: host } = new URL(url)
  const isHere = isLocal(url) || /^127\.|\.localhost$/.test(host)
  if (protocol === 'http:' && !isHere)
    say(`Warning: ${url} has no TLS, so others on the network can take over the login.`)
}

/** Asks whether the login is allowed, as RFC 8628, section 3.5 describes. */
async function poll(call: Client, body: { token: string; secret: string }, started: Started): Promise<Granted> {
  let seconds = started.interval_seconds
  // By the clock of this machine, which may differ from that of the service.
  const until = Date.now() + commandLoginLimits.validMinutes * 60_000
  while (Date.now() < until) {
    await pause(seconds * 1_000)
    try {
      const { session } = await call('finishCommandLogin', { body })
      if (session) return session
    } catch (fault) {
      if (!(fault instanceof Failure && fault.code === 'quota_exceeded')) throw fault
      seconds += commandLoginLimits.intervalSeconds
    }
  }
  throw new Failure('The login was not allowed in time.', 'expired', 'failed')
}

async function logIn(url: string, { browser, confirm = false, json }: LoginFlags): Promise<void> {
  warnWithoutTls(url)
  const call = openCall(url)
  const [token, secret] = [newSecret(), newSecret()]
  const challenge = process.getBuiltinModule('node:crypto').hash('sha256', token, 'hex')
  const asking = { challenge, host: hostname().slice(0, commandLoginLimits.host) || 'unnamed', confirm }
  const file = loginsFile(process.env)
  const replaced = readLogins(file).get(url)
  async function keep(grant: () => Promise<Granted>): Promise<void> {
    const sentAt = Date.now()
    const login = granted({ token, secret }, await grant(), sentAt)
    const before = replaced && (await accessOf(file, url, replaced)().catch(() => undefined))
    await setLogin(file, url, login)
    if (before !== undefined) await endSession(url, before).catch(() => {})
  }
  if (browser && hasBrowser(process.env)) {
    const loopback = await listen()
    try {
      const { port, state } = loopback
      const started = await call('startCommandLogin', { body: { ...asking, loopback: { port, state } } })
      const page = pageOf(started, url)
      say(`Allow the login in the browser, on a page that shows the code ${sanitize(started.code)}.`)
      say(`If no browser opens, open this address on this machine:\n\n  ${sanitize(page.href)}\n`)
      openBrowser(loopback.doorTo(page.href))
      await loopback.handOver(`${page.origin}${page.pathname}`, url, (code) =>
        keep(async () => {
          const { session } = await call('finishCommandLogin', { body: { token, secret, code } })
          if (session) return session
          throw new Failure('The login is not allowed.', 'refused', 'refused')
        }),
      )
    } finally {
      loopback.close()
    }
  } else {
    const started = await call('startCommandLogin', { body: asking })
    say(`Open this address in a browser:\n\n  ${sanitize(pageOf(started, url).href)}\n`)
    say(`and enter the code:\n\n  ${sanitize(started.code)}\n`)
    const session = await poll(call, { token, secret }, started)
    await keep(async () => session)
  }
  const service = (await findLoggedIn(url))!
  const view = await viewOf(url, service)
  console.log(json ? safeJson(view, 2) : textOf(view))
}

/** Ends the session of an access token at its service. */
async function endSession(url: string, access: string): Promise<void> {
  await createClient({ url, send: sendHttp, key: access })('deleteSession', {})
}

async function login(given: string | undefined, flags: LoginFlags): Promise<void> {
  // Without an address it is what it was before people could log in.
  if (given === undefined && flags.browser && !flags.confirm) return printLink(flags)
  await logIn(given ?? currentSettings(flags).url, flags)
}

export function addLogin(program: Command): void {
  const command = program
    .command('login')
    .description(
      'log this command line in at a service, as the person who allows it in a browser; without <url>: print a link that signs a browser in with your key, once and within 10 minutes',
    )
    .argument('[url]', 'address of the service', address)
    .option('--no-browser', 'print an address and a code to enter there, for a machine without a browser')
    .option('--confirm', 'log in again and confirm at the provider that it is you, for changes that ask for it')
  withService(command).action(login)
}

async function logout(given: string | undefined, flags: ServiceFlags): Promise<void> {
  const url = given ?? currentSettings(flags).url
  const file = loginsFile(process.env)
  if (!readLogins(file).has(url)) {
    throw new Failure(`No login at ${url}; \`wardline login ${url}\` makes one.`, 'not_found', 'refused')
  }
  let fault: unknown
  try {
    const { call } = (await findLoggedIn(url))!
    await call('deleteSession', {})
  } catch (cause) {
    fault = cause
  }
  const { expires_at } = readLogins(file).get(url)!
  await setLogin(file, url, undefined)
  // A login that has ended needs no end.
  if (fault instanceof Failure && fault.exit !== 'unauthorized') {
    const until = `its session there ends at ${sanitize(expires_at)} at the latest, or when an admin ends it`
    throw new Failure(`The login is deleted here, and ${until}. ${fault.message}`, fault.code, fault.exit)
  }
  if (fault !== undefined && !(fault instanceof Failure)) throw fault
  console.log(flags.json ? safeJson({ ok: true, url }) : `Logged out at ${url}.`)
}

export function addLogout(program: Command): void {
  const command = program
    .command('logout')
    .description('end the session of this command line at a service, and delete the login here')
    .argument('[url]', 'address of the service', address)
  withService(command).action(logout)
}
