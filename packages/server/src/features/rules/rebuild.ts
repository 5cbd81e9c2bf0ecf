import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Deps } from '../../deps.ts'
import { readEventsBetween, readSeqRange } from '../events/log-statements.ts'
import { readRuleEvents } from './event-log.ts'
import { ruleStates } from './language/rule-state.ts'
import { RuleTurn } from './rule-pace.ts'
import { readGroupFirings, readSpentFirings, readValues } from './runner-queries.ts'
import { asksHistory, type RunningRule, replay, rereadOf } from './running-rule.ts'
import { StoredHistory } from './value-history.ts'

const caller = 'rules'

async function* noting<Page>(pages: AsyncIterable<Page>, onPage: () => Promise<void>): AsyncGenerator<Page, void> {
  for await (const page of pages) {
    await onPage()
    yield page
  }
}

/**
 * Rebuilds the states of rules at a position in the log, from stored data and the events within their windows. `onPage` is
 * called regularly, because a long window takes longer than a lease.
 */
export async function rebuildStates(
  { database, clock }: Pick<Deps, 'database' | 'clock'>,
  rules: readonly RunningRule[],
  upTo: number,
  onPage: () => Promise<void>,
): Promise<void> {
  for (const rule of rules) {
    if (!asksHistory(rule.rule.correlation)) continue
    const pages = readValues(database, caller, { id: rule.row.id, basis: rule.basis })
    rule.history = await StoredHistory.restored(noting(pages, onPage))
  }
  const [last] = await database.scan(caller, (db) => readEventsBetween(db, { after: upTo - 1, upTo, limit: 1 }))
  const time = last?.created_at ?? clock.now()
  const spans = new Map<number, number>()
  for (const { rule } of rules) {
    const span = rereadOf(rule.correlation)
    if (span === 0 || spans.has(span)) continue
    const range = await database.scan(caller, (db) => readSeqRange(db, time - span, Number.MAX_SAFE_INTEGER))
    spans.set(span, range ? range.first - 1 : upTo)
  }
  const histories = new Map(rules.map((rule) => [rule, rule.history.asBefore()]))
  const begins = rules.flatMap((rule) => {
    const from = spans.get(rereadOf(rule.rule.correlation))
    return from === undefined ? [] : [{ rule, from: Math.max(from, rule.afterSeq) }]
  })
  for (let after = Math.min(upTo, ...begins.map(({ from }) => from)); after < upTo; ) {
    const events = await readRuleEvents(database, caller, { after, upTo })
    if (events.length === 0) break
    const turn = new RuleTurn(clock)
    for (const event of events) {
      for (const { rule, from } of begins) if (event.row.seq! > from) replay(rule, event, histories.get(rule)!)
      if (!turn.isOver()) continue
      await nextTurn()
      turn.begin()
    }
    after = events.at(-1)!.row.seq!
    await onPage()
    await nextTurn()
  }
  for (const { rule, row, afterSeq, state } of rules) {
    ruleStates.setSpent(state, await readSpentFirings(database.db, row, afterSeq))
    if (rule.cooldown === 0) continue
    const effective = Number.isFinite(state.time) ? state.time : time
    const since = { seq: afterSeq, time: effective - rule.cooldown }
    ruleStates.setFirings(state, await readGroupFirings(database.db, row.id, since))
  }
}
