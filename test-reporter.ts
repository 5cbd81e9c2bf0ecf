import type { Reporter, TestCase, TestModule } from 'vitest/node'

/** Ends a run with what was skipped and why, and with the counts on a line of their own. */
export default class ClosingLines implements Reporter {
  onTestRunEnd(modules: ReadonlyArray<TestModule>): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()])
    const inState = (state: string) => tests.filter((test) => test.result().state === state)
    const skipped = inState('skipped')
    if (skipped.length > 0) {
      console.log('\nSKIPPED:')
      for (const test of skipped) console.log(`  ${test.module.relativeModuleId} > ${test.fullName}: ${reasonOf(test)}`)
    }
    const broken = modules.filter((module) => module.errors().length > 0).length
    const failed = inState('failed').length + broken
    console.log(`\nTests: ${inState('passed').length} passed, ${failed} failed, ${skipped.length} skipped`)
    // On the project's own machines nothing may be missing that a test needs.
    if (process.env.CI && skipped.length > 0) {
      console.error('In CI no test may be skipped.')
      process.exitCode = 1
    }
  }
}

function reasonOf(test: TestCase): string {
  const result = test.result()
  return (result.state === 'skipped' && result.note) || 'no reason given'
}
