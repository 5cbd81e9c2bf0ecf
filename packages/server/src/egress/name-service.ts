import { promises } from 'node:dns'
import { isIP } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { type Clock, systemClock } from '../clock.ts'
import { candidatesOf, parseHosts, parseSearch, systemHostsFile, systemResolvConf, watchedFile } from './name-files.ts'

/** All addresses of a name, IPv4 and IPv6. Rejects with an error that has a `code`, or with the reason of `end`. */
export type Resolve = (name: string, end: AbortSignal) => Promise<string[]>

/** A server that does not answer within two seconds, twice, will not: the deadline of a request has to hold more than this. */
const queryOptions = { timeout: 2_000, tries: 2 }
/** A look-up with all its candidates. */
const lookUpMs = 8_000
/** RFC 8305, section 3, waits 50 ms for the other family; some name servers of companies never answer for IPv6. */
const otherFamilyMs = 500
/** What failed is not asked again at once by all that wait for it; the first retry of a message comes later. */
const failureMs = 2_000
/** Each channel has one name. */
const maxFailures = 1_000
const maxLookUps = 256

interface NameServiceOptions {
  /** Name servers, as `dns.setServers` takes them; default: those of the system. */
  servers?: readonly string[]
  hostsFile?: string
  resolvConf?: string
  clock?: Pick<Clock, 'monotonic'>
}

/** The result of a work; rejects with the reason of `end` when that comes first. */
export async function unlessEnded<Result>(work: Promise<Result>, end: AbortSignal): Promise<Result> {
  let onAbort = () => {}
  try {
    const ended = new Promise<never>((_, reject) => {
      onAbort = () => reject(end.reason)
      end.addEventListener('abort', onAbort, { once: true })
    })
    end.throwIfAborted()
    return await Promise.race([work, ended])
  } finally {
    end.removeEventListener('abort', onAbort)
  }
}

interface LookUp {
  addresses: Promise<string[]>
  /** How many wait for it: without any it is broken off. */
  waiting: number
  stop(): void
}

const fault = (code: 'ENOTFOUND' | 'EAI_AGAIN') => Object.assign(new Error('name not resolved'), { code })
const isMissing = (reason: unknown): boolean =>
  /^(ENOTFOUND|ENODATA)$/.test((reason as NodeJS.ErrnoException).code ?? '')

/** Other forms of an IPv4 address, such as 127.1 or 0x7f.1, which programs take for one (inet_aton(3)). */
function numericAddress(name: string): string | undefined {
  const host = /^[\da-fx.]*[\da-f]$/i.test(name) ? URL.parse(`http://${name}`)?.hostname : undefined
  return host !== undefined && isIP(host) === 4 ? host : undefined
}

/** Addresses of both families; of one alone when the other does not come. Rejects when the servers gave no answer. */
async function queryBoth(resolver: promises.Resolver, name: string): Promise<string[]> {
  let onFound = () => {}
  const oneFound = new Promise<void>((resolve) => {
    onFound = resolve
  })
  const found: string[] = []
  let failure: unknown
  const families = [resolver.resolve4(name), resolver.resolve6(name)].map((family) =>
    family.then(
      (addresses) => {
        found.push(...addresses)
        if (addresses.length > 0) onFound()
      },
      (reason) => {
        if (!isMissing(reason)) failure = reason
      },
    ),
  )
  const late = new AbortController()
  await Promise.race([
    Promise.all(families),
    oneFound.then(() => pause(otherFamilyMs, undefined, { signal: late.signal })).catch(() => {}),
  ])
  late.abort()
  if (found.length === 0 && failure !== undefined) throw fault('EAI_AGAIN')
  return [...found]
}

/**
 * Resolves names by the hosts file and then by DNS, without the resolver of the system: that one runs in the four
 * threads of the process, which files and all other names need too, and cannot be cancelled. Here a zone that does not
 * answer delays only look-ups of its names: one look-up for each name at a time, none longer than 8 seconds. Other
 * sources of nsswitch.conf are not used.
 */
export function createNameService(options: NameServiceOptions = {}): Resolve {
  const { servers, hostsFile = systemHostsFile, resolvConf = systemResolvConf, clock = systemClock } = options
  const hosts = watchedFile(hostsFile, parseHosts)
  const search = watchedFile(resolvConf, parseSearch)
  const lookUps = new Map<string, LookUp>()
  const failures = new Map<string, { until: number; reason: Error }>()

  async function lookUp(name: string, resolver: promises.Resolver, ended: AbortSignal): Promise<string[]> {
    const complete = name.replace(/\.$/, '')
    const numeric = numericAddress(complete)
    if (numeric !== undefined) return [numeric]
    const listed = (await hosts()).get(complete)
    if (listed) return listed
    // RFC 6761, section 6.3: never sent to a name server.
    if (/(^|\.)localhost$/.test(complete)) return ['127.0.0.1', '::1']
    for (const candidate of candidatesOf(name, await search())) {
      // Cancelling ends the running queries only; an abandoned look-up is not counted.
      if (ended.aborted) break
      const addresses = await queryBoth(resolver, candidate)
      if (addresses.length > 0) return addresses
    }
    throw fault(ended.aborted ? 'EAI_AGAIN' : 'ENOTFOUND')
  }

  function remember(name: string, reason: Error): void {
    failures.delete(name)
    if (failures.size >= maxFailures) failures.delete(failures.keys().next().value!)
    failures.set(name, { until: clock.monotonic() + failureMs, reason })
  }

  function begin(name: string): LookUp {
    // A new one reads the system's configuration again.
    const resolver = new promises.Resolver(queryOptions)
    if (servers !== undefined) resolver.setServers(servers)
    const ended = new AbortController()
    const timer = setTimeout(() => end(), lookUpMs)
    let isStopped = false
    const end = () => {
      clearTimeout(timer)
      ended.abort()
      resolver.cancel()
      if (lookUps.get(name) === started) lookUps.delete(name)
    }
    const addresses = lookUp(name, resolver, ended.signal)
      .catch((reason: Error) => {
        if (!isStopped) remember(name, reason)
        throw reason
      })
      .finally(end)
    // The callers may be gone.
    addresses.catch(() => {})
    const started: LookUp = {
      addresses,
      waiting: 0,
      stop() {
        isStopped = true
        end()
      },
    }
    lookUps.set(name, started)
    return started
  }

  return async (given, end) => {
    const name = given.toLowerCase()
    const failed = failures.get(name)
    if (failed && failed.until > clock.monotonic()) throw failed.reason
    if (!lookUps.has(name) && lookUps.size >= maxLookUps) throw fault('EAI_AGAIN')
    const shared = lookUps.get(name) ?? begin(name)
    shared.waiting += 1
    try {
      return await unlessEnded(shared.addresses, end)
    } finally {
      shared.waiting -= 1
      if (shared.waiting === 0) shared.stop()
    }
  }
}
