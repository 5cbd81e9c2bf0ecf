import type { Deps } from '../../deps.ts'
import { randomSecret } from '../../ids.ts'
import { claimLease, type Holding, releaseLease, renewLease } from './runner-queries.ts'

/** After this time without a renewal another process takes over, at most a second later. */
const leaseMs = 3_500
/** Work that takes longer renews the lease this often. */
const renewEveryMs = 1_000

/** The lease was lost or a write was stale: the state in memory may be outdated. */
export class Outdated extends Error {}

/** The lease of the process that runs the rules. */
export class RuleLease {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #holder = randomSecret(12)
  #renewedAt = Number.NEGATIVE_INFINITY

  constructor(deps: Pick<Deps, 'database' | 'clock'>) {
    this.#deps = deps
  }

  /** Until when a lease holds that is claimed or renewed at a time. */
  endOf = (now: number): number => now + leaseMs

  /** Undefined if another process holds it. */
  async claim(): Promise<Holding | undefined> {
    const { database, clock } = this.#deps
    this.#renewedAt = clock.monotonic()
    const now = clock.now()
    return claimLease(database.db, this.#holder, now, this.endOf(now))
  }

  /** False if another process took it. */
  async renew({ epoch }: Holding): Promise<boolean> {
    const { database, clock } = this.#deps
    this.#renewedAt = clock.monotonic()
    return renewLease(database.db, epoch, this.endOf(clock.now()))
  }

  /** Call between the turns of long work. Throws Outdated if another process took the lease. */
  async keep(holding: Holding): Promise<void> {
    if (this.#deps.clock.monotonic() - this.#renewedAt < renewEveryMs) return
    if (!(await this.renew(holding))) throw new Outdated()
  }

  async release({ epoch }: Holding): Promise<void> {
    await releaseLease(this.#deps.database.db, epoch)
  }
}
