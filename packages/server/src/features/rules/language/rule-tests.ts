import { type EventRow, eventColumns, type RuleTestEvent } from '@wardline/contract'
import type { Correlation } from './correlation.ts'
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

function firstFiring(rule: CompiledRule, events: readonly RuleEvent[]) {
  // As if the rule had run long enough to know what came before.
  const state = { ...ruleStates.start(rule), since: Number.NEGATIVE_INFINITY }
  const set = new RuleSet([{ compiled: rule, state, history: new ValueMemory() }])
  return events.flatMap((event) => set.take(event).map(({ firing }) => firing))[0]
}

const withoutLearning = (correlation: Correlation): Correlation => ({
  ...correlation,
  learning: 0,
  steps: correlation.steps.map((step) =>
    'correlation' in step ? { correlation: withoutLearning(step.correlation) } : step,
  ),
})

const learns = ({ type, steps }: Correlation): boolean =>
  type === 'new_value' || steps.some((step) => 'correlation' in step && learns(step.correlation))

/** Says if a case did not fire because its groups are too young for new values. */
function explainLearning(rule: CompiledRule, events: readonly RuleEvent[]): string {
  if (!learns(rule.correlation)) return ''
  if (firstFiring({ ...rule, correlation: withoutLearning(rule.correlation) }, events)) {
    return ' learning suppressed it: the group was younger than learning (default: 1d). Begin the case with an event of the group, and let the next one follow `after` that time.'
  }
  return events.length === 1 ? ' No value is new in the first event of a group, with which learning begins.' : ''
}

function runCase(
  rule: CompiledRule,
  kind: CaseResult['kind'],
  given: readonly RuleTestEvent[],
  index: number,
): CaseResult {
  const events = caseEvents(given)
  const first = firstFiring(rule, events)
  if ((first !== undefined) === (kind === 'match')) return { kind, index, passed: true }
  const what = first
    ? `fired at event ${first.seq} but must not (group ${first.group}, count ${first.count})`
    : 'did not fire but must'
  return {
    kind,
    index,
    passed: false,
    sentence: `Case ${index + 1} of tests.${kind} ${what}: ${explain(rule, events)}.${first ? '' : explainLearning(rule, events)}`,
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
