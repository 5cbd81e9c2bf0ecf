import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Deps } from '../../deps.ts'
import { WorkBudget } from '../../work-turns.ts'
import { readEventsBetween, readSeqRange } from '../events/log-statements.ts'
import { readRuleEvents } from './event-log.ts'
import { limitTogether } from './language/rule-memory.ts'
import { ruleStates } from './language/rule-state.ts'
import { RuleTurn } from './rule-pace.ts'
import {
  batchOf,
  type Holding,
  readFiredSince,
  readSpentFirings,
  readValues,
  runnerStatements,
} from './runner-queries.ts'
import { asksHistory, type RunningRule, replayEvent, rereadOf } from './running-rule.ts'
import { compactRows, type ValueRow } from './value-history.ts'

const caller = 'rules'

/** Reads what new_value knows, and stores it again with short keys where an older version stored long ones. */
async function* valuesOf(
  database: Deps['database'],
  { row: { id }, basis }: RunningRule,
  holding: Holding,
): AsyncGenerator<ValueRow[], void> {
  const statements = runnerStatements(database)
  for await (const rows of readValues(database, caller, { id, basis })) {
    const compact = compactRows(rows)
    const isLong = (row: ValueRow, index: number) =>
      row.group_key !== compact[index]!.group_key || row.value !== compact[index]!.value
    const forgotten = rows.filter(isLong)
    if (forgotten.length > 0) {
      const changed = compact.filter((_, index) => isLong(rows[index]!, index))
      await batchOf(holding, statements.values(id, basis, { changed, forgotten }))
    }
    await holding.lease.keep()
    yield compact
  }
}

/**
 * Rebuilds the states of rules at a position in the log, from stored data and the events within their windows. Keeps the
 * lease in each turn of the event loop: a long window, or a single page with costly rules, takes longer than a lease.
 */
export async function rebuildStates(
  { database, clock }: Pick<Deps, 'database' | 'clock'>,
  rules: readonly RunningRule[],
  holding: Holding,
): Promise<void> {
  const { lease, seq: upTo } = holding
  const rest = async () => {
    await nextTurn()
    await lease.keep()
  }
  limitTogether(rules)
  for (const rule of rules) {
    if (asksHistory(rule.compiled.correlation)) await rule.history.load(valuesOf(database, rule, holding), rest)
  }
  const [last] = await database.scan(caller, (db) => readEventsBetween(db, { after: upTo - 1, upTo, limit: 1 }))
  const time = last?.created_at ?? clock.now()
  for (const { compiled, afterSeq: after, state } of rules) {
    if (!compiled.watchesTime) continue
    const [first] = await database.scan(caller, (db) => readEventsBetween(db, { after, upTo, limit: 1 }))
    if (first) state.since = first.created_at
  }
  const spans = new Map<number, number>()
  for (const { compiled } of rules) {
    const span = rereadOf(compiled.correlation)
    if (span === 0 || spans.has(span)) continue
    const range = await database.scan(caller, (db) => readSeqRange(db, time - span, Number.MAX_SAFE_INTEGER))
    spans.set(span, range ? range.first - 1 : upTo)
    await lease.keep()
  }
  const histories = new Map(rules.map((rule) => [rule, rule.history.asBefore()]))
  const begins = rules.flatMap((rule) => {
    const from = spans.get(rereadOf(rule.compiled.correlation))
    return from === undefined ? [] : [{ rule, from: Math.max(from, rule.afterSeq) }]
  })
  const work = new WorkBudget(Number.POSITIVE_INFINITY)
  for (let after = Math.min(upTo, ...begins.map(({ from }) => from)); after < upTo; ) {
    const events = await readRuleEvents(database, caller, { after, upTo })
    if (events.length === 0) break
    const turn = new RuleTurn(clock)
    for (const event of events) {
      for (const { rule, from } of begins) {
        if (event.row.seq! <= from) continue
        for (const _slice of replayEvent(rule, event, histories.get(rule)!, work)) {
          if (!turn.isOverAfterSlice()) continue
          await rest()
          turn.begin()
        }
      }
      if (!turn.isOver()) continue
      await rest()
      turn.begin()
    }
    after = events.at(-1)!.row.seq!
    await rest()
  }
  for (const { compiled, row, afterSeq, modeAfter, state } of rules) {
    ruleStates.setSpent(state, await readSpentFirings(database.db, row, afterSeq))
    if (compiled.cooldown === 0) continue
    const effective = Number.isFinite(state.time) ? state.time : time
    const since = { seq: Math.max(afterSeq, modeAfter), time: effective - compiled.cooldown }
    ruleStates.setFirings(state, [])
    for await (const firings of readFiredSince(database, caller, row.id, since)) {
      ruleStates.addFirings(state, firings)
      await rest()
    }
  }
  // What had to be forgotten just now stays stored: deleting it could be a transaction of any size.
  for (const { history } of rules) history.takeChanges()
}
