import { promises } from 'node:dns'
import { isIP } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { type Clock, systemClock } from '../clock.ts'
import { candidatesOf, parseHosts, parseSearch, systemHostsFile, systemResolvConf, watchedFile } from './name-files.ts'

/** Resolves with all IPv4 and IPv6 addresses of a name. Rejects with an error with a `code`, or the reason of `end`. */
export type Resolve = (name: string, end: AbortSignal) => Promise<string[]>

/** A name server gets two attempts of two seconds each, because the deadline of a request also covers the rest. */
const queryOptions = { timeout: 2_000, tries: 2 }
/** Maximum time of a look-up, including all search domains. */
const lookUpMs = 8_000
/**
 * Wait for the other address family after the first one was resolved; RFC 8305, section 3, waits 50 ms. Some corporate
 * name servers never answer queries for IPv6.
 */
const otherFamilyMs = 500
/** A failed look-up is cached this long, so that concurrent requests do not repeat it. Messages are retried later. */
const failureMs = 2_000
/** Bounds the cache of failures. Each channel has one name. */
const maxFailures = 1_000
const maxLookUps = 256

interface NameServiceOptions {
  /** Name servers in the format of `dns.setServers`; default: those of the system. */
  servers?: readonly string[]
  hostsFile?: string
  resolvConf?: string
  clock?: Pick<Clock, 'monotonic'>
}

/** Resolves with the result of `work`. Rejects with the reason of `end` if it is aborted first. */
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
  /** Number of waiting callers; the look-up is cancelled when it drops to zero. */
  waiting: number
  stop(): void
}

const fault = (code: 'ENOTFOUND' | 'EAI_AGAIN') => Object.assign(new Error('name not resolved'), { code })
const isMissing = (reason: unknown): boolean =>
  /^(ENOTFOUND|ENODATA)$/.test((reason as NodeJS.ErrnoException).code ?? '')

/** Converts other forms of IPv4 addresses that programs accept, such as 127.1 or 0x7f.1 (inet_aton(3)). */
function numericAddress(name: string): string | undefined {
  const host = /^[\da-fx.]*[\da-f]$/i.test(name) ? URL.parse(`http://${name}`)?.hostname : undefined
  return host !== undefined && isIP(host) === 4 ? host : undefined
}

/** Resolves with the addresses of both families, or of one if the other is late. Rejects if no server answered. */
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
 * Resolves names with the hosts file, then DNS. It does not use the system's resolver (getaddrinfo), which cannot be
 * cancelled and blocks one of the four threads of libuv that file access and all other names also need. Here, a zone
 * that does not answer delays only its own names, with one look-up per name at a time and at most 8 seconds each.
 * Other sources in nsswitch.conf are ignored.
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
    // RFC 6761, section 6.3: names below localhost are never sent to a name server.
    if (/(^|\.)localhost$/.test(complete)) return ['127.0.0.1', '::1']
    for (const candidate of candidatesOf(name, await search())) {
      // resolver.cancel() ends only running queries, not the loop.
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
    // Each new resolver reloads the configuration of the system.
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
    // Prevents an unhandled rejection if all callers have stopped waiting.
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
