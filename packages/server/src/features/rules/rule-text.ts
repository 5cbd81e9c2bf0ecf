import { type RuleDocument, type RuleMode, type RuleTested, ruleLimits } from '@wardline/contract'
import { AppError } from '../../errors.ts'
import { type RuleFault, shown } from './language/fault.ts'
import { noLists } from './language/placeholders.ts'
import { type CompiledRule, parseRules } from './language/rule.ts'
import { ruleNotes } from './language/rule-notes.ts'
import { runTests } from './language/rule-tests.ts'

/** A rule as received: a document or its text. */
export type GivenRule = RuleDocument | string

/** The text of a rule with its parsed content. */
export interface ReadRule {
  rule: CompiledRule
  text: string
  format: 'yaml' | 'json'
  /** Probable mistakes in a valid rule. */
  notes: RuleFault[]
  /** Returns a fault with the position of a value in the text. */
  fault(path: readonly (string | number)[], sentence: string): RuleFault
}

const placed = ({ file, line, column, sentence }: RuleFault) =>
  `${file === undefined ? 'Line' : `${shown(file)}, line`} ${line}, column ${column}: ${sentence}`

/** Builds an error with the first fault as message and all faults as details. */
export function documentProblem(faults: readonly RuleFault[]): AppError {
  const [first, ...others] = faults
  const more = others.length > 0 ? ` (and ${others.length} more)` : ''
  return new AppError('invalid', `${placed(first!)}${more}`, undefined, { faults })
}

/** The text of a rule. */
export const textOf = (given: GivenRule): string => (typeof given === 'string' ? given : JSON.stringify(given, null, 2))

/** Parses a rule. Throws AppError `invalid` with the position of each fault. */
export function readRule(given: GivenRule, lists = noLists): ReadRule {
  const text = textOf(given)
  if (text.trim() === '') throw new AppError('invalid', 'The rule is empty: send a document in YAML or JSON.')
  if (Buffer.byteLength(text) > ruleLimits.textBytes) {
    throw new AppError('invalid', `The rule has more than ${ruleLimits.textBytes / 1024} KiB.`)
  }
  const { rules, faults } = parseRules(text, 1, lists)
  if (faults.length > 0) throw documentProblem(faults)
  const [first] = rules
  const { rule, source } = first!
  const format = text.trimStart().startsWith('{') ? 'json' : 'yaml'
  const notes = ruleNotes(rule.document, source)
  return { rule, text, format, notes, fault: (path, sentence) => source.fault(path, sentence) }
}

/** What runs of a document, as JSON. */
export const runningText = ({ tests: _, ...document }: RuleDocument): string => JSON.stringify(document)

/** Runs the tests of a rule. */
export function testResults({ rule, notes, fault }: ReadRule): RuleTested {
  const results = runTests(rule)
  const failed = results
    .filter(({ passed }) => !passed)
    .map(({ kind, index, sentence = '' }) => fault(['tests', kind, index], sentence))
  return { title: rule.document.title, passed: results.length - failed.length, failed, notes }
}

/** Throws AppError `invalid` if the rule fails its tests, or has none for a mode other than observe. */
export function assertTested(read: ReadRule, mode: RuleMode): void {
  if (mode !== 'observe' && read.rule.document.tests === undefined) {
    throw documentProblem([
      read.fault(
        ['title'],
        `The rule has no tests: mode ${mode} needs at least one case in tests.match and one in tests.no_match.`,
      ),
    ])
  }
  const { failed } = testResults(read)
  if (failed.length > 0) throw documentProblem(failed)
}
