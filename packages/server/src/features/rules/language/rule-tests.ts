import { type EventRow, eventColumns, type RuleTestEvent } from '@wardline/contract'
import { durationMs } from './duration.ts'
import type { RuleEvent } from './fields.ts'
import type { CompiledRule } from './rule.ts'
import { RuleSet } from './rule-set.ts'
import { ruleStates } from './rule-state.ts'
import { ValueMemory } from './value-memory.ts'

interface CaseResult {
  kind: 'match' | 'no_match'
  /** Index in its list, from 0. */
  index: number
  passed: boolean
  /** Why it failed. */
  sentence?: string
}

/** A Monday noon, so that rules that test the hour give the same result in each run. */
const start = Date.parse('2026-01-05T12:00:00.000Z')

const unset = Object.fromEntries(eventColumns.map((name) => [name, null])) as Record<keyof EventRow, null>

/** Returns an event with defaults for its fields. */
export const exampleRow = (seq: number, time: number, given: Partial<EventRow>): EventRow => ({
  ...unset,
  id: `00000000-0000-7000-8000-${String(seq).padStart(12, '0')}`,
  seq,
  severity: 'info',
  source: 'test',
  by_service: false,
  event_type: 'test',
  description: 'test',
  instance_id: 'test',
  created_at: new Date(time).toISOString(),
  ...given,
})

/** Converts the events of a case to events of the log. */
function caseEvents(events: readonly RuleTestEvent[]): RuleEvent[] {
  let time = start
  return events.map((event, index) => {
    const { after = '0s', tags = [], ip_address = null, reported_ip_address = ip_address, ...given } = event
    time += durationMs(after)
    const addresses = { ip_address: reported_ip_address, observed_ip_address: ip_address }
    const row = exampleRow(index + 1, time, { ...addresses, ...given })
    return { row, tags }
  })
}

/** Events explained per failed case; the others are only counted. */
const explainedEvents = 5

function explain({ selections }: CompiledRule, events: RuleEvent[]): string {
  const lines = events.slice(0, explainedEvents).map((event, index) => {
    const names = [...selections].filter(([, { matches }]) => matches(event)).map(([name]) => name)
    return `event ${index + 1} matches ${names.length === 0 ? 'no selection' : names.join(', ')}`
  })
  const others = events.length - lines.length
  return `${lines.join('; ')}${others > 0 ? `; and ${others} more` : ''}`
}

function runCase(
  rule: CompiledRule,
  kind: CaseResult['kind'],
  given: readonly RuleTestEvent[],
  index: number,
): CaseResult {
  const events = caseEvents(given)
  const set = new RuleSet([{ rule, state: ruleStates.start(rule), history: new ValueMemory() }])
  const firings = events.flatMap((event) => set.take(event).map(({ firing }) => firing))
  const [first] = firings
  if ((first !== undefined) === (kind === 'match')) return { kind, index, passed: true }
  const what = first
    ? `fired at event ${first.seq} but must not (group ${first.group}, count ${first.count})`
    : 'did not fire but must'
  return {
    kind,
    index,
    passed: false,
    sentence: `Case ${index + 1} of tests.${kind} ${what}: ${explain(rule, events)}.`,
  }
}

/** Runs the cases of a rule, each with an empty state. */
export function runTests(rule: CompiledRule): CaseResult[] {
  const { match = [], no_match = [] } = rule.document.tests ?? {}
  return [
    ...match.map((events, index) => runCase(rule, 'match', events, index)),
    ...no_match.map((events, index) => runCase(rule, 'no_match', events, index)),
  ]
}
