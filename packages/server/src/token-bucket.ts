import type { Clock } from './clock.ts'

/** A token bucket. The caller passes the time in milliseconds. */
export interface TokenBucket {
  readonly msPerToken: number
  readonly burst: number
  /** Negative after an amount larger than the burst, and after a charge to an empty bucket. */
  tokens: number
  at: number
}

export const fullBucket = (msPerToken: number, burst: number, now: number): TokenBucket => ({
  msPerToken,
  burst,
  tokens: burst,
  at: now,
})

/**
 * Returns the milliseconds until `amount` is available; 0 = now. A full bucket supplies any amount and goes into debt,
 * so that no request is too large forever. `credit` is the debt that is allowed beyond that.
 */
export function waitFor(bucket: TokenBucket, amount: number, now: number, credit = 0): number {
  if (now > bucket.at) {
    bucket.tokens = Math.min(bucket.burst, bucket.tokens + (now - bucket.at) / bucket.msPerToken)
    bucket.at = now
  }
  const missing = Math.min(amount, bucket.burst) - credit - bucket.tokens
  return missing <= 0 ? 0 : missing * bucket.msPerToken
}

/** Takes the tokens even if the bucket does not have enough. */
export function spend(bucket: TokenBucket, amount: number): void {
  bucket.tokens -= amount
}

/** Buckets of the same size by key. Beyond `max` keys, those that are full again are removed. */
export class TokenBuckets {
  readonly #msPerToken: number
  readonly #burst: number
  readonly #max: number
  readonly #buckets = new Map<string, TokenBucket>()

  constructor(msPerToken: number, burst: number, max: number) {
    this.#msPerToken = msPerToken
    this.#burst = burst
    this.#max = max
  }

  of(key: string, now: number): TokenBucket {
    const known = this.#buckets.get(key)
    if (known) return known
    if (this.#buckets.size >= this.#max) {
      for (const [other, bucket] of this.#buckets)
        if (waitFor(bucket, bucket.burst, now) === 0) this.#buckets.delete(other)
    }
    const bucket = fullBucket(this.#msPerToken, this.#burst, now)
    this.#buckets.set(key, bucket)
    return bucket
  }
}

/** Returns a function that takes a token of a key. Throws what `refuse` returns if there is none. */
export function createPace(
  { clock }: { clock: Clock },
  buckets: TokenBuckets,
  refuse: (key: string) => Error,
): (key: string) => void {
  return (key) => {
    const now = clock.monotonic()
    const bucket = buckets.of(key, now)
    if (waitFor(bucket, 1, now) > 0) throw refuse(key)
    spend(bucket, 1)
  }
}
