import type { Reporter, TestCase, TestModule } from 'vitest/node'

/**
 * Ends a run with the slowest files, what was skipped and why, what passed only on a second attempt, and the counts on
 * a separate line.
 */
export default class ClosingLines implements Reporter {
  onTestRunEnd(modules: ReadonlyArray<TestModule>): void {
    const slowest = modules.toSorted((one, other) => durationOf(other) - durationOf(one)).slice(0, 10)
    console.log('\nSLOWEST FILES:')
    for (const module of slowest) {
      const seconds = (durationOf(module) / 1000).toFixed(1).padStart(6)
      console.log(`${seconds} s  ${module.project.name}  ${module.relativeModuleId}`)
    }
    const tests = modules.flatMap((module) => [...module.children.allTests()])
    const inState = (state: string) => tests.filter((test) => test.result().state === state)
    const skipped = inState('skipped')
    if (skipped.length > 0) {
      console.log('\nSKIPPED:')
      for (const test of skipped) console.log(`  ${test.module.relativeModuleId} > ${test.fullName}: ${reasonOf(test)}`)
    }
    const flaky = tests.filter((test) => test.diagnostic()?.flaky)
    if (flaky.length > 0) {
      console.log('\nFLAKY, passed only on the second attempt:')
      for (const test of flaky) console.log(`  ${test.module.relativeModuleId} > ${test.fullName}`)
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

/** Hooks included, in milliseconds. */
const durationOf = (module: TestModule): number => module.diagnostic().duration

function reasonOf(test: TestCase): string {
  const result = test.result()
  return (result.state === 'skipped' && result.note) || 'no reason given'
}
