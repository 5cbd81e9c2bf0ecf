import { eventTypes, type QuotaName, quotaNames } from '@wardline/contract'
import { onlyName } from '@wardline/text'
import { hourMs } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { fullBucket, spend, type TokenBucket, waitFor } from '../../token-bucket.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import type { KeyRow } from './queries.ts'
import { type Limits, limitsOf } from './quota-limits.ts'

/** A full bucket of a quota per second lasts this long: enough for a collected batch or a burst of tool calls. */
const burstSeconds = 10
/**
 * Anomalies and the work of checks are charged to the key that causes them, even from an empty bucket. The debt is at
 * most what refills in this time.
 */
const maxDebtMs = 60_000
/** Wait before the next attempt to open a stream: another stream may end at any moment. */
const streamWaitMs = 5_000

type Rate = Exclude<QuotaName, 'streams'>

const unitOf: Record<QuotaName, string> = {
  events_per_second: 'events a second',
  critical_events_per_second: 'critical and breach events a second',
  bytes_per_second: 'bytes of events a second',
  checks_per_second: 'decoy checks a second',
  new_instances_per_hour: 'new instances an hour',
  streams: 'open streams',
}

interface Account {
  keyId: string
  /** JSON text from which the limits were computed. */
  quotas: string | null
  /** The instance to which the key is bound, if it is exactly one. */
  instance: string | undefined
  limits: Limits
  buckets: Partial<Record<Rate, TokenBucket>>
}

function openBuckets(limits: Limits, now: number, before: Account['buckets'] = {}): Account['buckets'] {
  const buckets: Account['buckets'] = {}
  for (const name of quotaNames) {
    const limit = limits[name]
    if (limit === null || name === 'streams') continue
    const bucket =
      name === 'new_instances_per_hour'
        ? fullBucket(hourMs / limit, limit, now)
        : fullBucket(1_000 / limit, limit * burstSeconds, now)
    // A change of quotas does not refill a bucket.
    const old = before[name]
    if (old) bucket.tokens = Math.min(bucket.burst, old.tokens)
    buckets[name] = bucket
  }
  return buckets
}

type Tools = Pick<Deps, 'config' | 'clock' | 'metrics'>

/**
 * Limits the requests of each key to this process by token buckets. Requests beyond a quota get 429, are counted, and
 * are reported once a minute.
 */
export class Quotas {
  readonly #tools: Tools
  readonly #reports: Pick<CountedReports, 'note'>
  #accounts = new Map<string, Account>()
  /** Open streams by key, including keys without a quota, because a quota may be set while streams are open. */
  readonly #streams = new Map<string, number>()

  constructor(tools: Tools, reports: Pick<CountedReports, 'note'>) {
    this.#tools = tools
    this.#reports = reports
  }

  /** Opens accounts for the valid keys that have a quota, and removes all other accounts. */
  update(keys: Iterable<Pick<KeyRow, 'id' | 'scope' | 'instances' | 'quotas'>>, configured?: Configured): void {
    const accounts = new Map<string, Account>()
    for (const key of keys) {
      const known = this.#accounts.get(key.id)
      if (known && known.quotas === key.quotas) accounts.set(key.id, known)
      else this.#open(accounts, key.id, limitsOf(key, this.#tools.config), key)
    }
    if (configured) {
      const known = this.#accounts.get(configured.keyId)
      if (known) accounts.set(configured.keyId, known)
      else this.#open(accounts, configured.keyId, configured.limits, { instances: '[]', quotas: null })
    }
    this.#accounts = accounts
  }

  #open(
    accounts: Map<string, Account>,
    keyId: string,
    limits: Limits,
    { instances, quotas }: Pick<KeyRow, 'instances' | 'quotas'>,
  ): void {
    if (quotaNames.every((name) => limits[name] === null)) return
    const known = this.#accounts.get(keyId)
    accounts.set(keyId, {
      keyId,
      quotas,
      instance: onlyName(JSON.parse(instances) as string[]),
      limits,
      buckets: openBuckets(limits, this.#tools.clock.monotonic(), known?.buckets),
    })
  }

  /**
   * Takes the quota of the events of one request. `bytes` is the size of the ordinary events. Throws AppError
   * `quota_exceeded`.
   */
  takeEvents(keyId: string, ordinary: number, critical: number, bytes: number): void {
    const account = this.#accounts.get(keyId)
    if (!account) return
    const count = ordinary + critical
    const { events_per_second, critical_events_per_second, bytes_per_second } = account.buckets
    const now = this.#tools.clock.monotonic()
    // Ordinary events must not delay a breach in the same batch, so they may overdraw their buckets.
    const isMixed = critical > 0
    const fault =
      (critical > 0 && this.#missing(account, 'critical_events_per_second', critical, now, count)) ||
      (ordinary > 0 && this.#missing(account, 'events_per_second', ordinary, now, count, isMixed)) ||
      (ordinary > 0 && this.#missing(account, 'bytes_per_second', bytes, now, count, isMixed))
    if (fault) throw fault
    if (critical_events_per_second) spend(critical_events_per_second, critical)
    if (events_per_second) spend(events_per_second, ordinary)
    if (bytes_per_second) spend(bytes_per_second, bytes)
  }

  /** Charges events that the service adds, such as anomalies, to the key whose events caused them. */
  chargeEvents(keyId: string, count: number): void {
    this.#charge(keyId, 'events_per_second', count)
  }

  /** Charges the work of a costly check as `count` more checks. */
  chargeChecks(keyId: string, count: number): void {
    this.#charge(keyId, 'checks_per_second', count)
  }

  #charge(keyId: string, name: Rate, count: number): void {
    const bucket = this.#accounts.get(keyId)?.buckets[name]
    if (bucket) spend(bucket, Math.min(count, Math.max(0, bucket.tokens + maxDebtMs / bucket.msPerToken)))
  }

  /** Takes one decoy check. Throws AppError `quota_exceeded`. */
  takeCheck(keyId: string): void {
    const fault = this.#take(keyId, 'checks_per_second')
    if (fault) throw fault
  }

  /** Takes one registration; returns AppError `quota_exceeded` if none is left. */
  takeInstance(keyId: string): AppError | undefined {
    return this.#take(keyId, 'new_instances_per_hour')
  }

  /** Returns the quota of a registration that failed. */
  returnInstance(keyId: string): void {
    const bucket = this.#accounts.get(keyId)?.buckets.new_instances_per_hour
    if (bucket) bucket.tokens = Math.min(bucket.burst, bucket.tokens + 1)
  }

  /** Counts a stream of the key; the returned function releases it. Throws AppError `quota_exceeded`. */
  openStream(keyId: string): () => void {
    const account = this.#accounts.get(keyId)
    const limit = account?.limits.streams ?? null
    const open = this.#streams.get(keyId) ?? 0
    if (account && limit !== null && open >= limit) throw this.#refusal(account, 'streams', streamWaitMs, 1)
    this.#streams.set(keyId, open + 1)
    return () => {
      const left = this.#streams.get(keyId)! - 1
      if (left > 0) this.#streams.set(keyId, left)
      else this.#streams.delete(keyId)
    }
  }

  #take(keyId: string, name: Rate): AppError | undefined {
    const account = this.#accounts.get(keyId)
    const bucket = account?.buckets[name]
    if (!account || !bucket) return undefined
    const fault = this.#missing(account, name, 1, this.#tools.clock.monotonic(), 1)
    if (!fault) spend(bucket, 1)
    return fault
  }

  /** Returns the refusal of `count` items if the bucket does not have `amount` tokens. */
  #missing(
    account: Account,
    name: Rate,
    amount: number,
    now: number,
    count: number,
    onCredit = false,
  ): AppError | undefined {
    const bucket = account.buckets[name]
    if (!bucket) return undefined
    const wait = waitFor(bucket, amount, now, onCredit ? bucket.burst : 0)
    return wait > 0 ? this.#refusal(account, name, wait, count) : undefined
  }

  #refusal({ keyId, limits, instance }: Account, name: QuotaName, waitMs: number, count: number): AppError {
    this.#tools.metrics.quotaRefusals.inc({ quota: name }, count)
    const describe = (total: number, refused: Record<string, number>) => ({
      severity: 'warning' as const,
      event_type: eventTypes.quotaExceeded,
      description: `Key ${keyId} exceeded its quotas: refused ${total} (${Object.entries(refused)
        .map(([quota, amount]) => `${amount} by ${quota}`)
        .join(', ')})`,
      metadata: {
        key_id: keyId,
        refused,
        quotas: Object.fromEntries(Object.keys(refused).map((quota) => [quota, limits[quota as QuotaName]])),
      },
      ...(instance === undefined ? {} : { instance_id: instance }),
    })
    this.#reports.note({ kind: eventTypes.quotaExceeded, owner: keyId }, describe, count, name)
    const help = keyId.startsWith('configured-')
      ? 'WARDLINE_QUOTA_… or an agent key for each agent raises it'
      : `"wardline keys quota ${keyId} ${name}=<number>" raises it`
    return new AppError(
      'quota_exceeded',
      `The quota of this key is used up: ${limits[name]} ${unitOf[name]} (${name}); ${help}.`,
      Math.ceil(waitMs / 1000),
    )
  }
}

/** The key of WARDLINE_API_KEY. */
interface Configured {
  keyId: string
  limits: Limits
}
