import { readFileSync } from 'node:fs'
import {
  type Client,
  createClient,
  dataFolder,
  type Endpoint,
  type ErrorCode,
  endpoints,
  WardlineError,
} from '@wardline/contract'
import { cutText } from '@wardline/text'
import { Failure } from '../exit.ts'
import { storedAdminKey } from './admin-key.ts'
import { accessOf, loginEnded, loginPlace, loginsFile, readLogins } from './logins.ts'
import { profileFile, readProfiles } from './profile-file.ts'
import { hasShape, leadsOn } from './reply-shape.ts'
import { sendHttp } from './send-http.ts'
import {
  isLocal,
  type KeyPlace,
  localUrl,
  resolveSettings,
  type ServiceFlags,
  type ServiceSettings,
} from './settings.ts'

/** Longer than the slowest response of the service. */
const answerWithinMs = 15_000
/** These endpoints wait for another server, whose timeout is up to 15 seconds. */
const testWithinMs = 30_000
const slowEndpoints: ReadonlySet<string> = new Set([
  'testChannel',
  'testEnforcementPoint',
  'planChainDrop',
  'dropChainTransaction',
])

export interface Service {
  url: string
  urlFrom: string
  key: string | undefined
  keyFrom: string
  /** Returns the key to send now: the access of a login is renewed. Rejects with Failure. */
  currentKey(): Promise<string | undefined>
  /** Calls an endpoint. Throws Failure. A response with another shape is reported as not from a Wardline server. */
  call: Client
}

/** `keyFrom` without a key. */
const noKeyPlace = 'nowhere'

/** Resolves the settings from the current profiles and environment. */
export const currentSettings = (flags: ServiceFlags): ServiceSettings =>
  resolveSettings(flags, process.env, readProfiles(profileFile(process.env)), [
    ...readLogins(loginsFile(process.env)).keys(),
  ])

const invalidConfiguration = (message: string) => new Failure(message, 'configuration', 'configuration')

function readKeyFile(file: string, from: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (cause) {
    throw invalidConfiguration(
      `The key file that ${from} names cannot be read (${(cause as NodeJS.ErrnoException).code}).`,
    )
  }
}

/** Throws Failure if the key is malformed, without quoting it. */
function readKey(place: KeyPlace): string {
  const key = 'key' in place ? place.key : readKeyFile(place.file, place.from)
  if (/^[!-~]{1,500}$/.test(key)) return key
  throw invalidConfiguration(
    `The key from ${place.from} is malformed: a key is one line of printable characters without spaces.`,
  )
}

/** Returns the service selected by options, environment and profiles, with its key. */
export async function findService(flags: ServiceFlags): Promise<Service> {
  const { url, urlFrom, isChosen, key: place } = currentSettings(flags)
  if (!isChosen && url !== localUrl && !flags.json) console.error(`Service: ${url}, from ${urlFrom}`)
  // A key that is given goes first; one that merely lies here does not: who logged in wants to be named.
  if (!place) {
    const logged = await findLoggedIn(url)
    if (logged) return { url, urlFrom, ...logged }
  }
  const stored = place || !isLocal(url) ? undefined : storedAdminKey(process.env.WARDLINE_DATA_DIR || dataFolder.path)
  const key = place ? readKey(place) : stored?.key
  const keyFrom = place?.from ?? stored?.place.replace(/^in /, '') ?? noKeyPlace
  const currentKey = async () => key
  return { url, urlFrom, key, keyFrom, currentKey, call: createCall(url, currentKey, keyFrom) }
}

/** Returns the login at this address, with a valid access token. Rejects with Failure if it has ended. */
export async function findLoggedIn(
  url: string,
): Promise<Pick<Service, 'key' | 'keyFrom' | 'currentKey' | 'call'> | undefined> {
  const file = loginsFile(process.env)
  const login = readLogins(file).get(url)
  if (!login) return undefined
  const access = accessOf(file, url, login)
  const currentKey = () =>
    access().catch((fault) => {
      throw fault instanceof WardlineError ? failureOf(url, loginPlace, fault) : fault
    })
  const key = await currentKey()
  return { key, keyFrom: loginPlace, currentKey, call: createCall(url, currentKey, loginPlace) }
}

/** Creates the error for a missing key, with advice. */
export function noKey(url: string): Failure {
  const ways = `give one with --key-file, WARDLINE_KEY, WARDLINE_KEY_FILE or a profile, or run \`wardline login ${url}\``
  const here = isLocal(url) ? ', or run this in the folder where the service runs' : ''
  return new Failure(`No key for ${url}: ${ways}${here}.`, 'no_key', 'unauthorized')
}

export const notWardline = (url: string, why: string): Failure =>
  new Failure(
    `${url} is not a Wardline server (${why}): check the address, and any proxy in between.`,
    'not_wardline',
    'unreachable',
  )

/** Returns the system's error code, such as ECONNREFUSED. */
export function systemCode(fault: unknown): string | undefined {
  for (let cause = fault; cause instanceof Error; cause = cause.cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (typeof code === 'string' && /^[A-Z_]{4,}$/.test(code)) return code
    if (cause.name === 'TimeoutError') return 'ETIMEDOUT'
  }
  return undefined
}

export function unreachable(url: string, fault: unknown): Failure {
  const reason = systemCode(fault)
  return new Failure(
    `No answer from ${url}${reason ? ` (${reason})` : ''}: start the service, or correct the address (--url, WARDLINE_URL or the profile).`,
    'unreachable',
    'unreachable',
    { cause: fault },
  )
}

/** Longer than any error message of the service. Other servers must not fill the terminal. */
export const longestSentence = 500

/** Converts an error response to a Failure with advice. */
export function refusal(url: string, keyFrom: string, { status, code, message: said }: WardlineError): Failure {
  const message = cutText(said, longestSentence)
  if (code === 'unexpected') return notWardline(url, `status ${status} without a code`)
  if (status === 401) {
    if (keyFrom === noKeyPlace) return noKey(url)
    if (code === ('fresh_confirmation_required' satisfies ErrorCode)) {
      const confirm = `run \`wardline login ${url} --confirm\`, and repeat this within 5 minutes`
      return new Failure(`This needs a fresh confirmation that it is you: ${confirm}.`, code, 'refused')
    }
    if (keyFrom === loginPlace) return loginEnded(url)
    return new Failure(`${message} The key came from ${keyFrom}.`, code, 'unauthorized')
  }
  if (status === 403 && keyFrom === loginPlace) {
    return new Failure(`${message} Your role does not include it; \`wardline whoami\` shows it.`, code, 'unauthorized')
  }
  if (status === 403) {
    return new Failure(
      `${message} Use a key with that permission; this one came from ${keyFrom}.`,
      code,
      'unauthorized',
    )
  }
  return new Failure(message, code, status < 500 ? 'refused' : 'failed')
}

/** Converts a fault of a call to a Failure with advice. */
function failureOf(url: string, keyFrom: string, fault: WardlineError): Failure {
  if (fault.code === 'unfit_answer') return notWardline(url, fault.message)
  return fault.status === 0 ? unreachable(url, fault) : refusal(url, keyFrom, fault)
}

function createCall(url: string, currentKey: Service['currentKey'], keyFrom: string): Client {
  return async (name, call) => {
    const { access, reply }: Endpoint = endpoints[name]
    const key = await currentKey()
    const client = createClient({ url, send: sendHttp, ...(key === undefined ? {} : { key }) })
    if (key === undefined && Array.isArray(access)) throw noKey(url)
    const timeout = AbortSignal.timeout(slowEndpoints.has(name) ? testWithinMs : answerWithinMs)
    const signal = call.signal ? AbortSignal.any([call.signal, timeout]) : timeout
    let answer: Awaited<ReturnType<Client>>
    try {
      answer = await client(name, { ...call, signal })
    } catch (fault) {
      throw fault instanceof WardlineError ? failureOf(url, keyFrom, fault) : fault
    }
    if (timeout.aborted) throw unreachable(url, timeout.reason)
    if (reply && !hasShape(reply, answer)) throw notWardline(url, 'its response has another format')
    if (!leadsOn(call.query ?? {}, answer)) throw notWardline(url, 'its list repeats entries')
    return answer as Awaited<ReturnType<typeof client<typeof name>>>
  }
}
