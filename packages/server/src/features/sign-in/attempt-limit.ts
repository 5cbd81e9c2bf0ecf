import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { spend, TokenBuckets, waitFor } from '../../token-bucket.ts'

/** Attempts, and their ends, of one address: an office behind one address in the morning, and then one a second. */
const burst = 200
const msPerAttempt = 500
const maxAddresses = 10_000

/** Limits attempts to sign in by what they come from, in this process. */
export class AttemptLimit {
  readonly #clock: Pick<Deps['clock'], 'monotonic'>
  readonly #buckets = new TokenBuckets(msPerAttempt, burst, maxAddresses)

  constructor({ clock }: Pick<Deps, 'clock'>) {
    this.#clock = clock
  }

  /** Throws AppError `quota_exceeded`. */
  take(name: string): void {
    const now = this.#clock.monotonic()
    const bucket = this.#buckets.of(name, now)
    const waitMs = waitFor(bucket, 1, now)
    if (waitMs > 0) throw new AppError('quota_exceeded', 'Too many attempts to sign in.', Math.ceil(waitMs / 1_000))
    spend(bucket, 1)
  }
}
