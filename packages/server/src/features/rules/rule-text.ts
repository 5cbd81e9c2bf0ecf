import { type RuleDocument, type RuleMode, type RuleTested, ruleLimits } from '@wardline/contract'
import { AppError } from '../../errors.ts'
import type { RuleFault } from './language/fault.ts'
import { type CompiledRule, parseRules } from './language/rule.ts'
import { runTests } from './language/rule-tests.ts'

/** A rule as it was sent: a document, or its text. */
export type GivenRule = RuleDocument | string

/** The text of a rule with what it says. */
export interface ReadRule {
  rule: CompiledRule
  text: string
  format: 'yaml' | 'json'
  /** The place of a value in the text, with a sentence about it. */
  fault(path: readonly (string | number)[], sentence: string): RuleFault
}

const placed = ({ line, column, sentence }: RuleFault) => `Line ${line}, column ${column}: ${sentence}`

/** The first fault for people, all of them for programs. */
export function ruleProblem(faults: readonly RuleFault[]): AppError {
  const [first, ...others] = faults
  const more = others.length > 0 ? ` (and ${others.length} more)` : ''
  return new AppError('invalid', `${placed(first!)}${more}`, undefined, { faults })
}

/** Throws AppError `invalid` with the place of each fault. */
export function readRule(given: GivenRule): ReadRule {
  const text = typeof given === 'string' ? given : JSON.stringify(given, null, 2)
  if (text.trim() === '') throw new AppError('invalid', 'The rule is empty: send a document in YAML or JSON.')
  if (Buffer.byteLength(text) > ruleLimits.textBytes) {
    throw new AppError('invalid', `The rule has more than ${ruleLimits.textBytes / 1024} KiB.`)
  }
  const { rules, faults } = parseRules(text, 1)
  if (faults.length > 0) throw ruleProblem(faults)
  const [first] = rules
  const { rule, source } = first!
  const format = text.trimStart().startsWith('{') ? 'json' : 'yaml'
  return { rule, text, format, fault: (path, sentence) => source.fault(path, sentence) }
}

/** Runs the tests of a rule. */
export function testResults({ rule, fault }: ReadRule): RuleTested {
  const results = runTests(rule)
  const failed = results
    .filter(({ passed }) => !passed)
    .map(({ kind, index, sentence = '' }) => fault(['tests', kind, index], sentence))
  return { title: rule.document.title, passed: results.length - failed.length, failed }
}

/** Throws AppError `invalid` for a rule that fails its tests, or has none and is to do more than observe. */
export function assertTested(read: ReadRule, mode: RuleMode): void {
  if (mode !== 'observe' && read.rule.document.tests === undefined) {
    throw ruleProblem([
      read.fault(
        ['title'],
        `The rule has no tests: mode ${mode} needs at least one case in tests.match and one in tests.no_match.`,
      ),
    ])
  }
  const { failed } = testResults(read)
  if (failed.length > 0) throw ruleProblem(failed)
}
