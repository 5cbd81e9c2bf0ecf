import type { RuleFault } from './fault.ts'
import { parseRules } from './rule.ts'
import { runTests } from './rule-tests.ts'

export { exportSigma } from './sigma-export.ts'
export { importSigma } from './sigma-import.ts'

// What people do with files of rules where no service is.

/** What is wrong with a text of rules. A rule without tests is valid, but cannot be enabled. */
export function lintRules(text: string): { titles: string[]; faults: RuleFault[] } {
  const { rules, faults } = parseRules(text)
  const untested = rules
    .filter(({ rule }) => rule.document.tests === undefined)
    .map(({ source }) =>
      source.fault(
        ['title'],
        'The rule has no tests: it needs at least one case in tests.match and one in tests.no_match.',
      ),
    )
  return { titles: rules.map(({ rule }) => rule.document.title), faults: [...faults, ...untested] }
}

interface TestedRule {
  title: string
  passed: number
  /** Cases that failed, where they stand. */
  failed: RuleFault[]
}

/** Runs the tests of each rule; faults say what could not run. */
export function testRules(text: string): { rules: TestedRule[]; faults: RuleFault[] } {
  const { rules } = parseRules(text)
  const tested = rules.map(({ rule, source }): TestedRule => {
    const results = runTests(rule)
    const failed = results
      .filter(({ passed }) => !passed)
      .map(({ kind, index, sentence = '' }) => source.fault(['tests', kind, index], sentence))
    return { title: rule.document.title, passed: results.length - failed.length, failed }
  })
  return { rules: tested, faults: lintRules(text).faults }
}
