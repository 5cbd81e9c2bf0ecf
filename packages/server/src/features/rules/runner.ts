import { setImmediate as nextTurn } from 'node:timers/promises'
import { readCounter } from '../../db/counters.ts'
import { claimLease, type Lease, LeaseLost } from '../../db/lease.ts'
import type { EventFields } from '../../db/schema/events.ts'
import type { Deps } from '../../deps.ts'
import { randomSecret } from '../../ids.ts'
import { SharedRun } from '../../shared-run.ts'
import { WorkBudget } from '../../work-turns.ts'
import type { Ingest } from '../events/ingest.ts'
import type { LogFollower } from '../events/log-follower.ts'
import { readRuleEvents, ruleEventsOf } from './event-log.ts'
import { EvictionReport } from './eviction-report.ts'
import type { Matched } from './firing-writer.ts'
import type { RuleEvent } from './language/fields.ts'
import { storeCompiled } from './queries.ts'
import { rebuildStates } from './rebuild.ts'
import type { RuleResponder } from './responder.ts'
import { RulePace, RuleTurn } from './rule-pace.ts'
import { runningText } from './rule-text.ts'
import {
  batchOf,
  type Holding,
  isSameMark,
  type RuleStart,
  readRuleMarks,
  readRulesOf,
  readStarts,
  readStoredSeq,
  runnerLease,
  startStatements,
} from './runner-queries.ts'
import { RunnerWrites } from './runner-writes.ts'
import { inherit, newRunningRule, type RunningRule, RunningSet, resume, startRow } from './running-rule.ts'

/** Events per page from memory. */
const nearRows = 500
/** Maximum duration of a page, including pauses in a flood: changed rules wait for its end. */
const maxPageMs = 1_000
/** Values of new_value and firings per transaction, of some 10 ms: a kill waits for up to two. An event adds a few hundred. */
const maxPendingValues = 1_000
const maxMatched = 250
/** While catching up, changed rules are loaded at this interval. */
const followMs = 250
const caller = 'rules'

interface RunnerParts {
  ingest: Ingest
  logFollower: LogFollower
  ruleResponder: RuleResponder
}

/**
 * Runs the rules on every stored event, in order of seq, in the process that holds the lease. The state is derived from the
 * log, so that another process can continue.
 */
export class RuleRunner {
  readonly #deps: Deps
  readonly #responder: RuleResponder
  readonly #follower: LogFollower
  readonly #pace: RulePace
  /** Id of this process in the lease. */
  readonly #holder = randomSecret(12)
  readonly #writes: RunnerWrites
  readonly #evictions: EvictionReport
  #holding: Holding | undefined
  #running = new RunningSet([])
  /** Events up to this seq were processed; the stored position lags behind. */
  #seq = 0
  #head = 0
  #isOpen = true
  #isAwake = false
  /** The database did not answer: the next run continues. */
  #isWaiting = false
  /** Rules that do not compile, by id, as they were then. */
  readonly #broken = new Map<string, RunningRule['row']>()
  #work: Promise<void> | undefined
  /** One after the other: one that read the rules earlier must not end later. */
  readonly #refreshing = new SharedRun(() => this.#refresh())

  constructor(deps: Deps, { ingest, logFollower, ruleResponder }: RunnerParts) {
    this.#deps = deps
    this.#follower = logFollower
    this.#responder = ruleResponder
    this.#pace = new RulePace(deps.clock)
    this.#writes = new RunnerWrites(deps, { ingest, ruleResponder })
    this.#evictions = new EvictionReport(ingest)
    logFollower.listen((row) => this.#hear(row))
  }

  /** Whether this process runs the rules. */
  get isHolder(): boolean {
    return this.#holding !== undefined
  }

  /** Almost free if no rules run. */
  #hear({ seq }: EventFields): boolean {
    if (!this.#holding || this.#running.rules.length === 0) return false
    this.#pace.note(1)
    this.#head = Math.max(this.#head, seq)
    this.#wake()
    return true
  }

  /** Runs in a later turn, so that callers get their responses first. */
  #wake(): void {
    if (this.#isAwake || this.#isWaiting) return
    this.#isAwake = true
    setImmediate(() => {
      this.#isAwake = false
      void this.#follow()
    })
  }

  /** Periodic job: claims or renews the lease, loads changed rules, and processes the log. */
  async run(): Promise<void> {
    const { database, clock, metrics } = this.#deps
    const now = clock.now()
    this.#isWaiting = false
    // Also while the database is unavailable, because the bus may deliver events.
    if (this.#holding) metrics.rulesLag.set(Math.max(0, this.#head - this.#seq))
    try {
      if (this.#holding && !(await this.#holding.lease.renew())) this.#drop()
      if (!this.#holding) {
        const claimed = await claimLease<{ seq: number }>(this.#deps, runnerLease, this.#holder)
        if (!claimed) {
          const seq = await readStoredSeq(database.db)
          metrics.rulesLag.set(Math.max(0, (await readCounter(database.db, 'event_seq')) - seq))
          return
        }
        const { lease, row } = claimed
        await this.#alone(() => this.#take({ lease, seq: Number(row.seq) }))
      }
      this.#head = Math.max(this.#head, await readCounter(database.db, 'event_seq'))
      await this.#refreshing.get()
      await this.#follow()
      await this.#alone(() => this.#move())
      if (this.#holding) await this.#responder.run()
      await this.#evictions.report(this.#running.rules, now)
      metrics.rulesLag.set(Math.max(0, this.#head - this.#seq))
    } catch (fault) {
      if (!(fault instanceof LeaseLost)) throw fault
      this.#drop()
    }
  }

  /**
   * Loads rules changed by this process at once, so that they apply to every event after the response. If another process
   * runs the rules, it loads them with its next run.
   */
  async learn(): Promise<void> {
    if (!this.#holding) return
    try {
      this.#head = Math.max(this.#head, await readCounter(this.#deps.database.db, 'event_seq'))
      await this.#refreshing.get()
    } catch (fault) {
      if (fault instanceof LeaseLost) this.#drop()
      else this.#deps.log.warn({ err: fault }, 'changed rules wait for the database')
    }
  }

  /** Stops after the current page and releases the lease. */
  async close(): Promise<void> {
    this.#isOpen = false
    await this.whenIdle()
    const holding = this.#holding
    this.#drop()
    await holding?.lease.release()
  }

  async whenIdle(): Promise<void> {
    while (this.#work) await this.#work.catch(() => {})
    await this.#responder.whenIdle()
  }

  #drop(): void {
    this.#holding = undefined
    this.#running = new RunningSet([])
  }

  /** Runs tasks one at a time, because they share the states. */
  async #alone(work: () => Promise<void>): Promise<void> {
    while (this.#work) await this.#work.catch(() => {})
    const running = work().finally(() => {
      if (this.#work === running) this.#work = undefined
      // Events in between were missed.
      if (this.#isOpen && this.#holding && this.#seq < this.#head) this.#wake()
    })
    this.#work = running
    await running
  }

  /** Processes events, for a limited time if there are many. Concurrent calls have no effect. */
  async #follow(): Promise<void> {
    if (this.#work) return this.#work.catch(() => {})
    await this.#alone(async () => {
      const until = this.#deps.clock.monotonic() + followMs
      const isDue = () => this.#seq < this.#head && this.#deps.clock.monotonic() < until
      try {
        while (this.#isOpen && this.#holding && isDue()) {
          if (this.#running.rules.length === 0) this.#seq = this.#head
          else if (!(await this.#takePage(this.#holding))) return
        }
      } finally {
        await this.#writes.whenDone()
      }
    }).catch((fault) => {
      // The page will be processed again, so drop states that already counted its events.
      this.#drop()
      if (!(fault instanceof LeaseLost)) this.#deps.log.warn({ err: fault }, 'the rules wait for the database')
    })
  }

  /** False if the page could not be read: the next run retries. */
  async #takePage(holding: Holding): Promise<boolean> {
    let events: RuleEvent[]
    // Events that are stored during the read may be missing from it.
    const head = this.#head
    try {
      events = await this.#nextPage()
    } catch (fault) {
      this.#deps.log.warn({ err: fault }, 'the rules wait for the database')
      this.#isWaiting = true
      return false
    }
    if (events.length === 0) {
      // Events up to there were deleted.
      this.#seq = head
      return true
    }
    const rules = this.#running
    const matched: Matched[] = []
    const turn = new RuleTurn(this.#deps.clock)
    const work = new WorkBudget(Number.POSITIVE_INFINITY)
    const until = this.#deps.clock.monotonic() + maxPageMs
    for (const event of events) {
      const steps = rules.take(event, work)
      let step = steps.next()
      for (; step.done !== true; step = steps.next()) if (turn.isOverAfterSlice()) await this.#rest(holding, turn)
      this.#seq = event.row.seq!
      for (const { running, firing } of step.value) matched.push({ rule: running, firing })
      if (matched.length >= maxMatched || rules.pendingValues() >= maxPendingValues) {
        await this.#writes.begin(holding, rules, this.#seq, matched.splice(0))
        turn.begin()
      } else if (turn.isOver()) {
        await this.#rest(holding, turn)
        if (this.#deps.clock.monotonic() > until) break
      }
    }
    if (matched.length > 0 || this.#writes.isMoveDue) {
      await this.#writes.begin(holding, rules, this.#seq, matched)
    } else await this.#pace.giveWay(turn.workedMs)
    return true
  }

  /** Yields to other work, and keeps the lease: an event may take many turns. */
  async #rest(holding: Holding, turn: RuleTurn): Promise<void> {
    const othersMs = await (this.#isOpen ? this.#pace.giveWay(turn.workedMs) : nextTurn(0))
    await holding.lease.keep()
    turn.begin(othersMs)
  }

  async #nextPage(): Promise<RuleEvent[]> {
    const { database } = this.#deps
    const near = this.#seq < this.#follower.head ? this.#follower.after(this.#seq, nearRows) : undefined
    const { withTags } = this.#running
    if (near) return ruleEventsOf(database.db, near, withTags)
    return readRuleEvents(database, caller, { after: this.#seq, upTo: this.#head, withTags })
  }

  async #writeNow(holding: Holding): Promise<void> {
    try {
      await this.#writes.begin(holding, this.#running, this.#seq, [])
      await this.#writes.whenDone()
    } catch (fault) {
      // The unwritten changes are no longer in the states; they are recomputed from the log.
      this.#drop()
      throw fault
    }
  }

  /** Writes the position in the log regularly, which limits what a restart reads again. */
  async #move(): Promise<void> {
    const holding = this.#holding
    if (!holding || (holding.seq === this.#seq && this.#running.pendingValues() === 0)) return
    if (this.#writes.isMoveDue) await this.#writeNow(holding)
  }

  /** Starts as lease holder: rebuilds the state of each rule. */
  async #take(holding: Holding): Promise<void> {
    const { database, log } = this.#deps
    this.#seq = holding.seq
    this.#head = Math.max(holding.seq, await readCounter(database.db, 'event_seq'))
    const marks = await readRuleMarks(database.db)
    const ids = marks.map(({ id }) => id)
    const rules = await this.#compile(ids, holding.seq, holding.lease)
    const starts = new Map((await readStarts(database.db)).map((start) => [start.rule_id, start]))
    const known = rules.filter(({ row, basis }) => starts.get(row.id)?.basis === basis)
    for (const rule of known) resume(rule, starts.get(rule.row.id)!, holding.seq)
    await rebuildStates(this.#deps, known, holding)
    await this.#begin(holding, rules, starts)
    this.#holding = holding
    this.#running = new RunningSet(rules)
    log.info(
      { epoch: holding.lease.epoch, rules: rules.length, seq: holding.seq },
      'rule engine started: this process evaluates the rules',
    )
  }

  /** Stores from where on rules process events, and since when they have their mode. */
  async #begin(
    holding: Holding,
    rules: readonly RunningRule[],
    stored: ReadonlyMap<string, RuleStart> = new Map(),
  ): Promise<void> {
    const { database } = this.#deps
    const statements = rules.flatMap((rule) => startStatements(database.db, startRow(rule), stored.get(rule.row.id)))
    if (statements.length > 0) await batchOf(holding, statements)
  }

  async #compile(ids: readonly string[], afterSeq: number, lease: Lease): Promise<RunningRule[]> {
    if (ids.length === 0) return []
    const rules: RunningRule[] = []
    const { db } = this.#deps.database
    const { rows, lists } = await readRulesOf(db, ids)
    for (const row of rows) {
      try {
        const running = newRunningRule(row, afterSeq, lists)
        rules.push(running)
        this.#broken.delete(row.id)
        const { cost, document } = running.compiled
        // Of a rule that an earlier version stored, and of a starter rule, these are not known.
        if (row.cost !== cost || row.document === null) {
          await storeCompiled(db, row, { cost, document: runningText(document) })
        }
      } catch (fault) {
        this.#broken.set(row.id, row)
        this.#deps.log.error({ err: fault, rule: row.id }, 'a rule does not compile; it is not run')
      }
      // A rule takes up to a quarter of a second at worst, and there may be hundreds.
      await nextTurn()
      await lease.keep()
    }
    return rules
  }

  /** Loads rules that were added, changed or removed. */
  async #refresh(): Promise<void> {
    const found = await readRuleMarks(this.#deps.database.db)
    const marks = found.filter((mark) => !isSameMark(this.#broken.get(mark.id), mark))
    const running = new Map(this.#running.rules.map((rule) => [rule.row.id, rule]))
    const changed = marks.filter((mark) => !isSameMark(running.get(mark.id)?.row, mark))
    if (changed.length === 0 && marks.length === running.size) return
    const holding = this.#holding
    if (!holding) return
    const changedIds = changed.map(({ id }) => id)
    const next = await this.#compile(changedIds, this.#seq, holding.lease)
    const ids = marks.map(({ id }) => id)
    await this.#alone(() => this.#exchange(ids, next))
  }

  /** Replaces the rules from the next event on. */
  async #exchange(ids: readonly string[], compiled: readonly RunningRule[]): Promise<void> {
    const holding = this.#holding
    if (!holding) return
    const running = new Map(this.#running.rules.map((rule) => [rule.row.id, rule]))
    if (running.size === 0) this.#seq = this.#head
    const next = compiled.map((rule) => {
      const before = running.get(rule.row.id)
      return before?.basis === rule.basis
        ? inherit(rule, before, this.#seq)
        : { ...rule, afterSeq: this.#seq, modeAfter: this.#seq }
    })
    const stored = new Map([...running].map(([id, rule]) => [id, startRow(rule)]))
    // No rule begins behind the stored place: a restart goes on from there. What was suppressed is counted.
    if (holding.seq !== this.#seq) await this.#writeNow(holding)
    await this.#begin(holding, next, stored)
    const replaced = new Map(next.map((rule) => [rule.row.id, rule]))
    this.#running = new RunningSet(ids.flatMap((id) => replaced.get(id) ?? running.get(id) ?? []))
  }
}
