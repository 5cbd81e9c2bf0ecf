import type { EventRow } from '@wardline/contract'
import { stringify } from 'yaml'
import type { Fired } from '../features/rules/language/cooldowns.ts'
import type { RuleEvent } from '../features/rules/language/fields.ts'
import { type CompiledRule, parseRules } from '../features/rules/language/rule.ts'
import type { Firing } from '../features/rules/language/rule-state.ts'
import { exampleRow } from '../features/rules/language/rule-tests.ts'

/** Start of the times of `logged`. */
export const epoch = Date.UTC(2026, 0, 5)

/** Compiles the rule of a valid document. */
export function compiled(document: object, lists: Record<string, string[]> = {}): CompiledRule {
  const text = stringify({ title: 'Test', severity: 'info', ...document })
  const { rules, faults } = parseRules(text, 1, new Map(Object.entries(lists)))
  if (faults.length > 0 || rules.length !== 1) throw new Error(JSON.stringify({ faults, document }))
  return rules[0]!.rule
}

/** Returns the faults of a text as `line:column sentence`. */
export const faultsOf = (text: string): string[] =>
  parseRules(text).faults.map(({ line, column, sentence }) => `${line}:${column} ${sentence}`)

/** Returns an event of the log. `at` is in milliseconds after `epoch`. */
export function logged({
  seq = 1,
  at = 0,
  tags = [],
  ...row
}: Partial<EventRow> & { at?: number; tags?: string[] }): RuleEvent {
  const given = { instance_id: 'bot-1', observed_ip_address: row.ip_address ?? null, ...row }
  return { row: exampleRow(seq, epoch + at, given), tags }
}

/** Returns what a process would read of the stored firings of a log whose seqs begin at 1. */
export const storedFirings = (firings: readonly Firing[], events: readonly RuleEvent[]): Fired[] =>
  firings.map(({ group, time, seq }) => ({ group, time, instance: events[seq - 1]!.row.instance_id ?? '' }))
