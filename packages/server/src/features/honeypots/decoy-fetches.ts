import { eventTypes } from '@wardline/contract'
import { sanitize } from '@wardline/text'
import type { Config } from '../../config.ts'
import type { Deps } from '../../deps.ts'
import type { Fetched } from '../../http/decoy-listener.ts'
import { uuidV7 } from '../../ids.ts'
import type { Ingest } from '../events/ingest.ts'
import { createDecoyDigest, type DecoyDigest } from './decoy-digest.ts'
import { hitStatements, readUrlDecoys, type UrlDecoy } from './queries.ts'

/** What stands for a key in hits and quotas of those who fetch: they have none. */
const fetcher = 'decoy-url'

/** Kept in memory and read once a second; more than a deployment plants. */
const maxUrls = 10_000
const minuteMs = 60_000
/** Who knows a decoy URL can fetch it as often as they like: of each decoy so many hits a minute are written. */
const maxAMinute = 30
/** Hits that wait for the database. */
const maxWaiting = 1_000
/** A name behind the token makes a URL look like that of a file. */
const pathPattern = /^\/d\/([A-Za-z0-9]{32})(?:[/?#.].*)?$/s

/** Headers that say who fetches, and hold no secret; of the others only the name is kept. */
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

/** How a decoy URL begins; undefined where none can be fetched. */
export function decoyUrlBase({ decoyUrl, decoyPort, decoyHost, host }: Config): string | undefined {
  if (decoyUrl !== undefined) return decoyUrl.replace(/\/+$/, '')
  if (!decoyPort) return undefined
  const name = decoyHost ?? host
  return `http://${name.includes(':') ? `[${name}]` : name}:${decoyPort}`
}

/** Values of harmless headers, and the names of the others, both cut. */
function factsOf({ method, headers }: Fetched) {
  const kept: Record<string, string> = {}
  const others: string[] = []
  for (const [name, value] of Object.entries(headers)) {
    if (keptHeaders.has(name)) kept[name] = sanitize(value).slice(0, maxValue)
    else if (others.length < maxNames) others.push(sanitize(name).slice(0, maxName))
  }
  return { method: method.slice(0, maxName), headers: kept, other_headers: others }
}

/** Fetches of decoy URLs: found in memory, so that a flood of wrong ones costs the database nothing, then stored one by one. */
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

  /** A job: reloads the decoys, also those that other processes changed, and stores what the database refused before. */
  async refresh(): Promise<void> {
    await this.whenIdle()
    const rows = await readUrlDecoys(this.#deps.database.db, maxUrls)
    this.#urls = new Map(rows.map((row) => [row.digest, row]))
  }

  /** Called with every request; returns at once. */
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

  /** Resolves when what was fetched is stored; rejects when the database refuses it. */
  async whenIdle(): Promise<void> {
    await this.#storeAll()
  }
}
