import type { Deps } from '../../deps.ts'
import { SharedRun } from '../../shared-run.ts'
import { type Part, readIdAfter } from './fleet-scan-statements.ts'

/** Instances that one statement reads: some ten milliseconds, for which others wait. */
export const partSize = 10_000
/** Within it a part grows by as many instances as register. */
const keptMs = 60_000

/** Divides the fleet into parts of which a statement reads one, so that no caller waits for the whole. */
export class FleetParts {
  readonly #ends: SharedRun<string[]>

  constructor({ database, clock }: Pick<Deps, 'database' | 'clock'>) {
    this.#ends = new SharedRun(
      async () => {
        const ends: string[] = []
        for (let end: string | undefined; ; ends.push(end)) {
          end = await database.scan('fleet', (db) => readIdAfter(db, ends.at(-1) ?? '', partSize - 1))
          if (end === undefined) return ends
        }
      },
      { clock, keptMs },
    )
  }

  /** Returns the parts in the order of ids. */
  async read(): Promise<Part[]> {
    const ends = await this.#ends.get()
    return [...ends, undefined].map((upTo, index) => ({ after: ends[index - 1] ?? '', upTo }))
  }
}
