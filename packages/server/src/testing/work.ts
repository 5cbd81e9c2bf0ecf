import type { Slices } from '../work-turns.ts'

/** Runs work to its end without pausing. */
export function atOnce<Result>(work: Slices<Result>): Result {
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
  }
}
