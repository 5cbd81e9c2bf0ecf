import { ruleLimits } from '@wardline/contract'
import { costFault } from './cost.ts'
import type { RuleFault } from './fault.ts'
import { noLists } from './placeholders.ts'
import { parseRules } from './rule.ts'
import { ruleNotes } from './rule-notes.ts'
import { runTests } from './rule-tests.ts'

export { exportSigma } from './sigma-export.ts'
export { importSigma } from './sigma-import.ts'

// Commands on rule files that need no service.

interface Linted {
  titles: string[]
  faults: RuleFault[]
  notes: RuleFault[]
  /** Units that its rules cost an event, with those of `others`. */
  cost: number
}

/**
 * Returns the faults of a text of rules, and notes on probable mistakes. A rule without tests is a fault here,
 * because it can only run in mode observe. `others`: what the rules of other texts cost.
 */
export function lintRules(text: string, others = 0, lists = noLists): Linted {
  const { rules, faults } = parseRules(text, ruleLimits.documents, lists)
  let cost = others
  const costly = rules.flatMap(({ rule, source }) => {
    const sentence = costFault(rule.cost, cost)
    cost += rule.cost
    return sentence === undefined ? [] : [source.fault(['detection'], sentence)]
  })
  const untested = rules
    .filter(({ rule }) => rule.document.tests === undefined)
    .map(({ source }) =>
      source.fault(
        ['title'],
        'The rule has no tests: it needs at least one case in tests.match and one in tests.no_match.',
      ),
    )
  return {
    titles: rules.map(({ rule }) => rule.document.title),
    faults: [...faults, ...untested, ...costly],
    notes: rules.flatMap(({ rule, source }) => ruleNotes(rule.document, source)),
    cost,
  }
}

interface TestedRule {
  title: string
  passed: number
  /** Failed cases, with their positions. */
  failed: RuleFault[]
}

/** Runs the tests of each valid rule; `faults` are those of `lintRules`. */
export function testRules(text: string, lists = noLists): { rules: TestedRule[]; faults: RuleFault[] } {
  const { rules } = parseRules(text, ruleLimits.documents, lists)
  const tested = rules.map(({ rule, source }): TestedRule => {
    const results = runTests(rule)
    const failed = results
      .filter(({ passed }) => !passed)
      .map(({ kind, index, sentence = '' }) => source.fault(['tests', kind, index], sentence))
    return { title: rule.document.title, passed: results.length - failed.length, failed }
  })
  return { rules: tested, faults: lintRules(text, 0, lists).faults }
}
