/** Tokens that come back with time, in milliseconds that the caller gives. */
export interface TokenBucket {
  readonly msPerToken: number
  readonly burst: number
  /** Below zero after an amount larger than the burst, or a charge. */
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
 * Milliseconds until the bucket gives `amount`; 0 = now. A full bucket gives any amount and owes the rest, so that no
 * request is too large for ever. `credit`: so much it may owe beyond that.
 */
export function waitFor(bucket: TokenBucket, amount: number, now: number, credit = 0): number {
  if (now > bucket.at) {
    bucket.tokens = Math.min(bucket.burst, bucket.tokens + (now - bucket.at) / bucket.msPerToken)
    bucket.at = now
  }
  const missing = Math.min(amount, bucket.burst) - credit - bucket.tokens
  return missing <= 0 ? 0 : missing * bucket.msPerToken
}

/** Takes the tokens, whether they are there or not. */
export function spend(bucket: TokenBucket, amount: number): void {
  bucket.tokens -= amount
}
