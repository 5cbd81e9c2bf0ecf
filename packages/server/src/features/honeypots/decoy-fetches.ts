import { eventTypes } from '@wardline/contract'
import { sanitize } from '@wardline/text'
import type { Config } from '../../config.ts'
import type { Deps } from '../../deps.ts'
import type { Fetched } from '../../http/decoy-listener.ts'
import { uuidV7 } from '../../ids.ts'
import type { Ingest } from '../events/ingest.ts'
import { createDecoyDigest, type DecoyDigest } from './decoy-digest.ts'
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
/** A file name after the token makes the URL look like that of a file. */
const pathPattern = /^\/d\/([A-Za-z0-9]{32})(?:[/?#.].*)?$/s

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

interface Fetch {
  decoy: UrlDecoy
  fetched: Fetched
  at: number
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

/** Handles fetches of decoy URLs. Looks tokens up in memory, so that a flood of wrong ones does not load the database. */
export class DecoyFetches {
  readonly #deps: Pick<Deps, 'database' | 'clock' | 'log' | 'metrics'>
  readonly #ingest: Pick<Ingest, 'own' | 'store'>
  readonly #digest: DecoyDigest
  #urls = new Map<string, UrlDecoy>()
  #minute = 0
  #counts = new Map<string, number>()
  #waiting: Fetch[] = []
  #work: Promise<void> | undefined

  constructor(deps: Pick<Deps, 'database' | 'clock' | 'log' | 'metrics' | 'secrets'>, { ingest }: { ingest: Ingest }) {
    this.#deps = deps
    this.#ingest = ingest
    this.#digest = createDecoyDigest(deps.secrets.decoyKey)
  }

  /** Periodic job: reloads the decoys, including changes by other processes, and retries failed writes. */
  async refresh(): Promise<void> {
    await this.whenIdle()
    const rows = await readUrlDecoys(this.#deps.database.db, maxUrls)
    this.#urls = new Map(rows.map((row) => [row.digest, row]))
  }

  /** Called for every request; does not wait for the database. */
  take(fetched: Fetched): void {
    const { clock, metrics } = this.#deps
    const token = pathPattern.exec(fetched.path)?.[1]
    const decoy = token === undefined ? undefined : this.#urls.get(this.#digest('key', token))
    const at = clock.now()
    const outcome = !decoy ? 'unknown' : this.#hasRoom(decoy, at) ? 'decoy' : 'limited'
    metrics.decoyFetches.inc({ outcome })
    if (!decoy || outcome === 'limited') return
    this.#waiting.push({ decoy, fetched, at })
    this.#storeAll().catch((fault) => {
      this.#deps.log.warn({ err: fault, waiting: this.#waiting.length }, 'a fetch of a decoy URL is not stored yet')
    })
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

  /** Resolves once all hits are stored; rejects if the database fails. */
  async whenIdle(): Promise<void> {
    await this.#storeAll()
  }
}
