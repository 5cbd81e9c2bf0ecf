import { endpoints, type SystemView } from '@wardline/contract'
import { answerWithinMs, type RawAnswer, rawRequest } from '../service/raw-request.ts'
import { sendHttp } from '../service/send-http.ts'
import { type Service, systemCode } from '../service/service.ts'
import { version as ownVersion } from '../version.ts'
import { type Check, fail, ok, skip, warn } from './check.ts'

const startIt = 'Start the service, or correct the address: --url, WARDLINE_URL or the profile.'

/** Returns the response of /healthz, or a sentence that says why there is none. */
async function askHealth(url: string): Promise<RawAnswer | string> {
  try {
    return await rawRequest(url, '/healthz')
  } catch (fault) {
    return systemCode(fault) ?? 'no answer'
  }
}

async function serviceVersion(url: string): Promise<string | undefined> {
  const answer = await rawRequest(url, '/openapi.json').catch(() => undefined)
  const { info } = (answer?.body ?? {}) as { info?: { version?: unknown } }
  return typeof info?.version === 'string' ? info.version : undefined
}

const series = (version: string) => version.split('.').slice(0, 2).join('.')

/** Checks that the address is a Wardline server of a compatible version. */
export async function checkService({
  url,
  urlFrom,
}: Service): Promise<{ check: Check; health: RawAnswer | undefined }> {
  const health = await askHealth(url)
  if (typeof health === 'string') {
    return {
      check: fail('service', `Nothing answers at ${url}, from ${urlFrom} (${health}).`, startIt),
      health: undefined,
    }
  }
  if (health.status !== 200 || (health.body as { ok?: unknown } | undefined)?.ok !== true) {
    const detail = `${url}, from ${urlFrom}, is not a Wardline server: /healthz returned ${health.status}.`
    return { check: fail('service', detail, 'Correct the address, or the proxy at that address.'), health: undefined }
  }
  const version = await serviceVersion(url)
  const detail = `Wardline ${version ?? 'of an unknown version'} answers at ${url}, from ${urlFrom}.`
  const isCompatible = version === undefined || series(version) === series(ownVersion)
  const check = isCompatible
    ? ok('service', detail)
    : warn('service', `${detail} This command line is ${ownVersion}.`, 'Use the command line of the same version.')
  return { check, health }
}

/**
 * Returns the minimum difference between the service's clock and ours, allowing for the header's whole seconds and the
 * duration of the request.
 */
export function clockSkewMs(date: string | null, sentAt: number, answeredAt: number): number | undefined {
  const serverTime = Date.parse(date ?? '')
  if (Number.isNaN(serverTime)) return undefined
  const [maxSkew, minSkew] = [serverTime + 999 - sentAt, serverTime - answeredAt]
  if (minSkew > 0) return minSkew
  return maxSkew < 0 ? maxSkew : 0
}

/** Time windows (--from, --since) and the expiry of keys depend on the clocks. */
const skewWorthSaying = 5_000
const skewThatBreaks = 60_000

export function checkClock({ headers, sentAt, answeredAt }: RawAnswer): Check {
  const skew = clockSkewMs(headers.get('date'), sentAt, answeredAt)
  if (skew === undefined) return skip('clock', 'The answer has no Date header; a proxy may have removed it.')
  const seconds = Math.round(Math.abs(skew) / 1_000)
  if (Math.abs(skew) < skewWorthSaying) return ok('clock', 'The clocks of the service and of this machine agree.')
  const detail = `The clock of the service is ${seconds} s ${skew > 0 ? 'ahead of' : 'behind'} this machine.`
  const verdict = Math.abs(skew) < skewThatBreaks ? warn : fail
  return verdict('clock', detail, 'Synchronise both machines with a time server (NTP).')
}

const hosts = ['localhost', '127.0.0.1', '[::1]']

/** Checks that the key is not sent unencrypted over a network. */
export function checkTransport({ url, key }: Service): Check {
  const { protocol, hostname } = new URL(url)
  if (protocol === 'https:') return ok('transport', 'The connection is encrypted.')
  if (hosts.includes(hostname)) return ok('transport', 'The connection stays on this machine.')
  const what = key === undefined ? 'Events cross' : 'The key and the events cross'
  return warn(
    'transport',
    `${what} the network unencrypted.`,
    'Put a proxy with TLS before the service, and use its https:// address.',
  )
}

const openPaths = [
  { path: endpoints.streamEvents.path, setting: 'WARDLINE_STREAM_AUTH', closed: 'session' },
  { path: endpoints.getMetrics.path, setting: 'WARDLINE_METRICS_AUTH', closed: 'key' },
]

/** Resolves with the status of a request without a key. Does not read the response: that of a stream never ends. */
async function statusWithoutKey(url: string, path: string): Promise<number> {
  const signal = AbortSignal.timeout(answerWithinMs)
  const { status, body } = await sendHttp(new URL(path, url), { method: 'GET', headers: {}, signal })
  await body?.cancel()
  return status
}

interface Explained {
  /** Why the service decided so, by setting. */
  reasons: Map<string, string>
  /** What the service warns of. */
  warnings: string[]
}

/** Returns what the service says of its configuration, as far as the key may read that. */
async function explain({ url, key }: Service): Promise<Explained> {
  const nothing = { reasons: new Map(), warnings: [] }
  if (key === undefined) return nothing
  const { status, body } = await rawRequest(url, endpoints.getSystem.path, { key })
  if (status !== 200) return nothing
  const { configuration, warnings = [] } = body as Partial<SystemView>
  const reasons = configuration?.map(({ name, value, reason }) => [name, reason ?? `${name} is ${value}`] as const)
  return { reasons: new Map(reasons), warnings }
}

/** Checks whether events and metrics are read without a key, which only this machine should. */
export async function checkOpenPaths(service: Service): Promise<Check> {
  const name = 'without a key'
  try {
    const { reasons, warnings } = await explain(service)
    const asked = await Promise.all(
      openPaths.map(async (each) => ({ ...each, status: await statusWithoutKey(service.url, each.path) })),
    )
    const open = asked.filter(({ status }) => status === 200)
    const detail = asked
      .map(({ path, setting, status }) => {
        const reason = reasons.get(setting)
        return `${path} needs ${status === 200 ? 'no key' : 'a key'}${reason ? `, because ${reason}` : ''}.`
      })
      .join(' ')
    if (warnings.length > 0) {
      const fix = 'Change that where the service runs, and restart it.'
      return warn(name, [detail, ...warnings].join(' '), fix)
    }
    if (open.length === 0 || hosts.includes(new URL(service.url).hostname)) return ok(name, detail)
    const fix = open.map(({ setting, closed }) => `${setting}=${closed}`).join(' and ')
    return warn(
      name,
      detail,
      `Set ${fix} where the service runs: without a key, all who reach ${service.url} read them.`,
    )
  } catch (fault) {
    return skip(name, `The service stopped answering (${systemCode(fault) ?? 'no answer'}).`)
  }
}

/** Checks the state of the service's components by /readyz. */
export async function checkReadiness({ url }: Service): Promise<Check> {
  const answer = await rawRequest(url, '/readyz').catch(() => undefined)
  const { database, backplane } = (answer?.body ?? {}) as { database?: unknown; backplane?: unknown }
  if (typeof database !== 'string') {
    return fail(
      'database',
      `/readyz returned ${answer?.status ?? 'no answer'}.`,
      'Configure the proxy to forward /readyz to the service.',
    )
  }
  if (database !== 'ok') {
    return fail('database', 'The database is not writable.', 'Check the disk, and read the log of the service.')
  }
  if (backplane === 'unavailable') {
    return warn(
      'database',
      'The database is writable, but the backplane is unavailable: changes by other processes arrive up to a second later.',
      'Check the Redis server in BACKPLANE_URL of the service.',
    )
  }
  return ok('database', `The database is writable; backplane: ${backplane}.`)
}

interface Rights {
  /** The service does not accept the key. */
  invalid: boolean
  read: boolean
  control: boolean
  administer: boolean
  report: boolean
}

/** Requests without effect: reads, and requests that are refused as malformed once the key is accepted. */
const questions: Record<keyof Omit<Rights, 'invalid'>, [path: string, method: 'GET' | 'POST', body?: unknown]> = {
  read: ['/api/status', 'GET'],
  control: ['/api/kill/NOT-AN-INSTANCE', 'POST'],
  administer: ['/api/keys', 'GET'],
  report: ['/api/heartbeat', 'POST', {}],
}

async function findRights(url: string, key: string): Promise<Rights> {
  const rights: Rights = { invalid: false, read: false, control: false, administer: false, report: false }
  for (const [right, [path, method, body]] of Object.entries(questions)) {
    const { status } = await rawRequest(url, path, { method, key, body })
    if (status === 401) rights.invalid = true
    rights[right as keyof Rights] = status === 200 || status === 400
  }
  return rights
}

/** Describes the scope of a key by its tested rights, which may differ from the text of the key. */
export function describeRights({ read, control, administer, report }: Omit<Rights, 'invalid'>): Check {
  const other = 'Use a key of scope operator (--key-file, WARDLINE_KEY or a profile).'
  if (administer) return ok('key', 'Scope admin: may do everything.')
  if (control) return ok('key', 'Scope operator: may read, kill, resume and create decoys; may not manage keys.')
  if (read) return warn('key', 'Scope viewer: may read; may not kill or resume.', other)
  if (report) return fail('key', 'Scope agent: may report for its instances; may not read.', other)
  return fail('key', 'The key has no permissions here.', other)
}

export async function checkKey({ url, key, keyFrom }: Service): Promise<Check> {
  if (key === undefined) {
    return fail(
      'key',
      'No key is configured.',
      'Give one with --key-file, WARDLINE_KEY or a profile (wardline profile set).',
    )
  }
  try {
    const rights = await findRights(url, key)
    if (rights.invalid) {
      return fail(
        'key',
        `The service refuses the key from ${keyFrom}.`,
        'Use a valid one: wardline keys create, where the service runs.',
      )
    }
    const check = describeRights(rights)
    return { ...check, detail: `${check.detail} It comes from ${keyFrom}.` }
  } catch (fault) {
    return fail('key', `The service stopped answering (${systemCode(fault) ?? 'no answer'}).`, startIt)
  }
}
