import { fullBucket, spend, TokenBuckets, waitFor } from '../../token-bucket.ts'

/**
 * A reconnecting fleet behind one address gets its rows within seconds; a caller that replays continuously costs a
 * fifth of a core.
 */
const rowsPerSecond = 10_000
/** Two full replays at once. */
const burstRows = 20_000
/** Limit for all callers together: half a core, mostly of the reader thread. */
const allRowsPerSecond = 25_000
const allBurstRows = 25_000
/** Beyond this number of callers, those with a full burst are removed. */
const maxCallers = 1_000

const msPerRow = (perSecond: number) => 1_000 / perSecond

/** Limits replayed rows per caller and in total. A page is sent while none are owed, and may then overdraw the bucket. */
export class ReplayPace {
  readonly #callers = new TokenBuckets(msPerRow(rowsPerSecond), burstRows, maxCallers)
  readonly #all = fullBucket(msPerRow(allRowsPerSecond), allBurstRows, -Infinity)

  /** Milliseconds until the caller may get another page. */
  waitMs(caller: string, now: number): number {
    return Math.max(waitFor(this.#all, 0, now), waitFor(this.#callers.of(caller, now), 0, now))
  }

  take(caller: string, rows: number, now: number): void {
    for (const bucket of [this.#all, this.#callers.of(caller, now)]) {
      // Fills the bucket up to now.
      waitFor(bucket, 0, now)
      spend(bucket, rows)
    }
  }
}
