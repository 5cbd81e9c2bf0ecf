import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { spend, TokenBuckets, waitFor } from '../../token-bucket.ts'

/** Far more than people use and than a team needs that shares a key; programs send the key itself. */
const burst = 60
/** Each sign-in leaves audit entries, which are never deleted: 17,000 a day, about 8 MB, at this pace. */
const msPerSignIn = 10_000
/** Keys whose sign-ins are counted: a hundred bytes each. */
const maxCounted = 10_000

/** Limits how often each key opens a session or makes a login link in this process. */
export class SignIns {
  readonly #clock: Pick<Deps['clock'], 'monotonic'>
  readonly #buckets = new TokenBuckets(msPerSignIn, burst, maxCounted)

  constructor({ clock }: Pick<Deps, 'clock'>) {
    this.#clock = clock
  }

  /** Throws AppError `quota_exceeded`. */
  take(keyId: string): void {
    const now = this.#clock.monotonic()
    const bucket = this.#buckets.of(keyId, now)
    const waitMs = waitFor(bucket, 1, now)
    if (waitMs > 0) {
      throw new AppError(
        'quota_exceeded',
        `The key signed in more than ${burst} times: further sign-ins are limited to one each ${msPerSignIn / 1_000} seconds.`,
        Math.ceil(waitMs / 1_000),
      )
    }
    spend(bucket, 1)
  }
}
