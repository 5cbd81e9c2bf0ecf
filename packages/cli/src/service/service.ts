import { readFileSync } from 'node:fs'
import { type Client, createClient, dataFolder, type Endpoint, endpoints, WardlineError } from '@wardline/contract'
import { cutText } from '@wardline/text'
import { Failure } from '../exit.ts'
import { storedAdminKey } from './admin-key.ts'
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
  /** Calls an endpoint. Throws Failure. A response with another shape is reported as not from a Wardline server. */
  call: Client
}

/** `keyFrom` without a key. */
const noKeyPlace = 'nowhere'

/** Resolves the settings from the current profiles and environment. */
export const currentSettings = (flags: ServiceFlags): ServiceSettings =>
  resolveSettings(flags, process.env, readProfiles(profileFile(process.env)))

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
  const stored = place || !isLocal(url) ? undefined : storedAdminKey(process.env.WARDLINE_DATA_DIR || dataFolder.path)
  const key = place ? readKey(place) : stored?.key
  const keyFrom = place?.from ?? stored?.place.replace(/^in /, '') ?? noKeyPlace
  return { url, urlFrom, key, keyFrom, call: createCall(url, key, keyFrom) }
}

/** Creates the error for a missing key, with advice. */
export function noKey(url: string): Failure {
  const ways = 'give one with --key-file, WARDLINE_KEY, WARDLINE_KEY_FILE or a profile'
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
const longestSentence = 500

/** Converts an error response to a Failure with advice. */
export function refusal(url: string, keyFrom: string, { status, code, message: said }: WardlineError): Failure {
  const message = cutText(said, longestSentence)
  if (code === 'unexpected') return notWardline(url, `status ${status} without a code`)
  if (status === 401) {
    if (keyFrom === noKeyPlace) return noKey(url)
    return new Failure(`${message} The key came from ${keyFrom}.`, code, 'unauthorized')
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

function createCall(url: string, key: string | undefined, keyFrom: string): Client {
  const client = createClient({ url, send: sendHttp, key })
  return async (name, call) => {
    const { access, reply }: Endpoint = endpoints[name]
    if (key === undefined && Array.isArray(access)) throw noKey(url)
    const timeout = AbortSignal.timeout(slowEndpoints.has(name) ? testWithinMs : answerWithinMs)
    const signal = call.signal ? AbortSignal.any([call.signal, timeout]) : timeout
    let answer: Awaited<ReturnType<Client>>
    try {
      answer = await client(name, { ...call, signal })
    } catch (fault) {
      if (!(fault instanceof WardlineError)) throw fault
      if (fault.code === 'unfit_answer') throw notWardline(url, fault.message)
      throw fault.status === 0 ? unreachable(url, fault) : refusal(url, keyFrom, fault)
    }
    if (timeout.aborted) throw unreachable(url, timeout.reason)
    if (reply && !hasShape(reply, answer)) throw notWardline(url, 'its response has another format')
    if (!leadsOn(call.query ?? {}, answer)) throw notWardline(url, 'its list repeats entries')
    return answer as Awaited<ReturnType<typeof client<typeof name>>>
  }
}
