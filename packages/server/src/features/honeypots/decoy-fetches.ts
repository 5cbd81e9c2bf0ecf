import { eventTypes } from '@wardline/contract'
import { sanitize } from '@wardline/text'
import type { Config } from '../../config/config.ts'
import type { Deps } from '../../deps.ts'
import type { Fetched } from '../../http/decoy-listener.ts'
import type { Dropped } from '../../http/waiting-connections.ts'
import { randomBetween, uuidV7 } from '../../ids.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import type { Ingest } from '../events/ingest.ts'
import { createDecoyDigest, type DecoyDigest } from './decoy-digest.ts'
import { percentDecoded } from './key-decoding.ts'
import { hitStatements, readUrlDecoys, type UrlDecoy } from './queries.ts'

/** Replaces the key id in hits and quotas, because fetches have no key. */
const fetcher = 'decoy-url'

/** Decoy URLs kept in memory, read once a second: more than a deployment plants. */
const maxUrls = 10_000
const minuteMs = 60_000
/** Hits stored per decoy and minute, because anyone with the URL can fetch it any number of times. */
const maxAMinute = 30
/** Maximum number of hits waiting for the database. */
const maxWaiting = 1_000
/** Requests that wait for their look-up; beyond this number they are looked up at once, which takes a millisecond. */
const maxTaken = 200
/**
 * A look-up runs this long after a request. A random delay, because a look-up that finds a decoy takes longer, which
 * delays what the service does next: the time of that would show an attacker what the response does not.
 */
const lookUpAfterMs = [20, 200] as const

/** Whatever precedes or follows a token, such as a proxy's prefix, a file name or punctuation of the text around it. */
const tokenPattern = /[A-Za-z0-9]{32}/g
/** A URL contains one token. Each costs a hash. */
const maxTokens = 8
/** Links are encoded again where a program puts them into another URL. */
const maxPercentDepth = 3

/** Headers that identify the client and contain no secret. Of other headers only the name is stored. */
const keptHeaders = new Set([
  'accept',
  'accept-language',
  'dnt',
  'forwarded',
  'from',
  'host',
  'origin',
  'sec-ch-ua',
  'sec-ch-ua-platform',
  'sec-fetch-dest',
  'sec-fetch-mode',
  'user-agent',
  'via',
  'x-forwarded-for',
  'x-requested-with',
])
const maxValue = 200
const maxNames = 20
const maxName = 40

interface Taken {
  fetched: Fetched
  at: number
}

interface Fetch extends Taken {
  decoy: UrlDecoy
}

/** Returns what could be the token of a decoy URL. */
function tokensIn(target: string): string[] {
  const tokens = new Set<string>()
  let text = target
  for (let depth = 0; depth <= maxPercentDepth; depth++) {
    for (const [token] of text.matchAll(tokenPattern)) tokens.add(token)
    const decoded = percentDecoded(text)
    if (decoded === text) break
    text = decoded
  }
  return [...tokens].slice(0, maxTokens)
}

/** Returns the prefix of decoy URLs; undefined if they cannot be fetched in this deployment. */
export function decoyUrlBase({ decoyUrl, decoyPort, decoyHost, host }: Config): string | undefined {
  if (decoyUrl !== undefined) return decoyUrl.replace(/\/+$/, '')
  if (!decoyPort) return undefined
  const name = decoyHost ?? host
  return `http://${name.includes(':') ? `[${name}]` : name}:${decoyPort}`
}

/** Returns the values of harmless headers and the names of the others, both truncated. */
function factsOf({ method, headers }: Fetched) {
  const kept: Record<string, string> = {}
  const others: string[] = []
  for (const [name, value] of Object.entries(headers)) {
    if (keptHeaders.has(name)) kept[name] = sanitize(value).slice(0, maxValue)
    else if (others.length < maxNames) others.push(sanitize(name).slice(0, maxName))
  }
  return { method: method.slice(0, maxName), headers: kept, other_headers: others }
}

/** Handles requests to the decoy port. Looks tokens up in memory: a flood of wrong ones does not load the database. */
export class DecoyFetches {
  readonly #deps: Pick<Deps, 'database' | 'clock' | 'log' | 'metrics'>
  readonly #ingest: Pick<Ingest, 'own' | 'store'>
  readonly #reports: Pick<CountedReports, 'note'>
  readonly #digest: DecoyDigest
  #taken: Taken[] = []
  #lookUp: NodeJS.Timeout | undefined
  #urls = new Map<string, UrlDecoy>()
  #minute = 0
  #counts = new Map<string, number>()
  #waiting: Fetch[] = []
  #work: Promise<void> | undefined

  constructor(
    deps: Pick<Deps, 'database' | 'clock' | 'log' | 'metrics' | 'secrets'>,
    { ingest, countedReports }: { ingest: Ingest; countedReports: Pick<CountedReports, 'note'> },
  ) {
    this.#deps = deps
    this.#ingest = ingest
    this.#reports = countedReports
    this.#digest = createDecoyDigest(deps.secrets.decoyKey)
  }

  /** Periodic job: reloads the decoys, including changes by other processes, and retries failed writes. */
  async refresh(): Promise<void> {
    await this.whenIdle()
    const rows = await readUrlDecoys(this.#deps.database.db, maxUrls)
    this.#urls = new Map(rows.map((row) => [row.digest, row]))
  }

  /** Called for every request, once it is answered. Does the same for all of them; which are decoys shows later. */
  take(fetched: Fetched): void {
    this.#taken.push({ fetched, at: this.#deps.clock.now() })
    if (this.#taken.length >= maxTaken) this.#lookUpAll()
    else this.#lookUp ??= setTimeout(() => this.#lookUpAll(), randomBetween(...lookUpAfterMs)).unref()
  }

  /** Called for each connection that was closed before it had sent a request. */
  dropped({ reason, address }: Dropped): void {
    this.#deps.metrics.decoyConnectionsDropped.inc({ reason })
    // Browsers open connections that they do not use.
    if (reason === 'timeout') return
    const kind = eventTypes.decoyConnectionsDropped
    const describe = (count: number, parts: Record<string, number>) => ({
      severity: 'warning' as const,
      event_type: kind,
      description: `WARDLINE_DECOY_PORT is flooded: ${count} connections without a request were dropped, and fetches of decoy URLs may be missed`,
      ip_address: address,
      metadata: { count, beyond_address_limit: parts.address ?? 0, beyond_total_limit: parts.total ?? 0 },
    })
    this.#reports.note({ kind, owner: fetcher }, describe, 1, reason)
  }

  #lookUpAll(): void {
    clearTimeout(this.#lookUp)
    this.#lookUp = undefined
    const taken = this.#taken
    this.#taken = []
    for (const one of taken) this.#find(one)
    if (this.#waiting.length === 0) return
    this.#storeAll().catch((fault) => {
      this.#deps.log.warn({ err: fault, waiting: this.#waiting.length }, 'a fetch of a decoy URL is not stored yet')
    })
  }

  #find({ fetched, at }: Taken): void {
    const decoys = tokensIn(fetched.target).map((token) => this.#urls.get(this.#digest('key', token)))
    const decoy = decoys.find((found) => found !== undefined)
    const outcome = !decoy ? 'unknown' : this.#hasRoom(decoy, at) ? 'decoy' : 'limited'
    this.#deps.metrics.decoyFetches.inc({ outcome })
    if (decoy && outcome === 'decoy') this.#waiting.push({ decoy, fetched, at })
  }

  #hasRoom({ honeypot_id }: UrlDecoy, now: number): boolean {
    const minute = now - (now % minuteMs)
    if (minute !== this.#minute) {
      this.#minute = minute
      this.#counts = new Map()
    }
    const count = this.#counts.get(honeypot_id) ?? 0
    this.#counts.set(honeypot_id, count + 1)
    return count < maxAMinute && this.#waiting.length < maxWaiting
  }

  #storeAll(): Promise<void> {
    this.#work ??= this.#storeWaiting().finally(() => {
      this.#work = undefined
    })
    return this.#work
  }

  async #storeWaiting(): Promise<void> {
    for (let next = this.#waiting[0]; next; next = this.#waiting[0]) {
      await this.#store(next)
      this.#waiting.shift()
    }
  }

  async #store({ decoy, fetched, at }: Fetch): Promise<void> {
    const { database, metrics } = this.#deps
    const event = {
      ...this.#ingest.own({
        severity: 'breach',
        event_type: eventTypes.honeypotTriggered,
        description: 'A decoy URL was fetched',
        metadata: {
          honeypot_id: decoy.honeypot_id,
          type: 'api_key',
          keyType: 'url',
          tool: null,
          planted_at: decoy.instance_id,
          fetched: factsOf(fetched),
        },
      }),
      ip_address: fetched.address,
    }
    const hit = {
      id: uuidV7(at),
      honeypot_id: decoy.honeypot_id,
      at,
      reporter: null,
      key_id: fetcher,
      tool: null,
      ip_address: fetched.address,
      event_id: event.id,
      form: 'url' as const,
      is_test: 0 as const,
      is_ignored: 0 as const,
    }
    await this.#ingest.store([event], {
      also: hitStatements(database.db, hit, decoy),
      keyId: fetcher,
      isDecoyHit: true,
    })
    metrics.decoyHits.inc({ type: 'api_key' })
  }

  /** Resolves once all requests are looked up and all hits are stored; rejects if the database fails. */
  async whenIdle(): Promise<void> {
    this.#lookUpAll()
    await this.#storeAll()
  }
}
