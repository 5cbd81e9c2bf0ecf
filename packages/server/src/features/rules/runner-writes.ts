import type { Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import type { Ingest } from '../events/ingest.ts'
import { createFiringWriter, type Matched } from './firing-writer.ts'
import type { RuleResponder } from './responder.ts'
import { batchOf, type Holding, runnerStatements } from './runner-queries.ts'
import type { RunningSet } from './running-rule.ts'

/** The place in the log is written with each firing, and otherwise this often: what is read again makes no firing. */
const moveEveryMs = 1_000

interface Unwritten {
  matched: readonly Matched[]
  /** The position in the log. */
  seq: number
  values: readonly Statement[]
  suppressed: ReturnType<RunningSet['takeSuppressed']>
}

/**
 * Writes firings, values of new_value and the position in the log, each time in one transaction, so that each event is
 * counted exactly once, even after a crash. Events are processed during a write, and one write comes after the other.
 */
export class RunnerWrites {
  readonly #deps: Pick<Deps, 'clock' | 'metrics'>
  readonly #responder: RuleResponder
  readonly #statements: ReturnType<typeof runnerStatements>
  readonly #firings: ReturnType<typeof createFiringWriter>
  #movedAt = -Infinity
  /** Resolves with the fault of the last write, if it failed. */
  #last: Promise<{ fault: unknown } | undefined> = Promise.resolve(undefined)

  constructor(deps: Deps, { ingest, ruleResponder }: { ingest: Ingest; ruleResponder: RuleResponder }) {
    this.#deps = deps
    this.#responder = ruleResponder
    this.#statements = runnerStatements(deps.database)
    this.#firings = createFiringWriter(deps, { ingest })
  }

  /** Whether the position in the log was not written for a second. */
  get isMoveDue(): boolean {
    return this.#deps.clock.monotonic() - this.#movedAt >= moveEveryMs
  }

  /**
   * Begins a write once the last one is done. Throws the fault of that one: then what it would have stored is missing, and
   * so nothing that comes after it may be stored either.
   */
  async begin(holding: Holding, running: RunningSet, seq: number, matched: readonly Matched[]): Promise<void> {
    // Taken at once, because the next events change them.
    const unwritten: Unwritten = {
      matched,
      seq,
      values: running.rules.flatMap(({ row, basis, history }) =>
        history.pending === 0 ? [] : this.#statements.values(row.id, basis, history.takeChanges()),
      ),
      suppressed: running.takeSuppressed(),
    }
    await this.whenDone()
    this.#last = this.#store(holding, unwritten).then(
      () => undefined,
      (fault) => ({ fault }),
    )
  }

  /** Throws the fault of the last write, once. */
  async whenDone(): Promise<void> {
    const failed = await this.#last
    this.#last = Promise.resolve(undefined)
    if (failed) throw failed.fault
  }

  async #store(holding: Holding, { matched, seq, values, suppressed }: Unwritten): Promise<void> {
    const { clock, metrics } = this.#deps
    const writing = await this.#firings.prepare(matched, clock.now())
    const hours = suppressed.map(({ row, hour, count }) => ({ rule_id: row.id, hour, count: 0, suppressed: count }))
    const counts = hours.length > 0 ? [this.#statements.hours(hours)] : []
    const moving = holding.lease.change({ seq })
    const written = await batchOf(holding, [moving, ...values, ...writing.statements, ...counts])
    holding.seq = seq
    this.#movedAt = clock.monotonic()
    writing.stored(written)
    for (const { rule } of matched) metrics.ruleFirings.inc({ mode: rule.row.mode })
    for (const { row, count } of suppressed) metrics.suppressedFirings.inc({ mode: row.mode }, count)
    if (writing.pending.length > 0) this.#responder.add(writing.pending)
  }
}
