import { sliceUnits } from '../../../work-turns.ts'
import type { CharacterSet } from './character-set.ts'
import { added, costlyUnits, noCost, unitsOf, withoutFound } from './cost.ts'
import type { RuleEvent } from './fields.ts'
import { indexOf } from './list-index.ts'
import type { Test } from './modifiers.ts'
import type { Matches } from './predicate.ts'

/** Whether the test passes for the value or for an element of a list. */
function holds(test: Test, value: unknown): boolean {
  switch (typeof value) {
    case 'string':
    case 'number':
    case 'boolean':
      return test(value)
    default:
      if (!Array.isArray(value)) return false
      return test.inList ? test.inList(indexOf(value)) : indexOf(value).scalars.some((element) => test(element))
  }
}

/** Characters that tests read of a value. */
export function sizeOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  return Array.isArray(value) ? indexOf(value).characters : 1
}

/** Up to these units (a microsecond) they are not counted, because the rest of a rule costs as much. */
const freeUnits = sliceUnits / 1_000

/** Whether all tests of a value pass, or any; `characters` is its maximum. */
export function testing(
  tests: readonly Test[],
  { isAll, read, characters }: { isAll: boolean; read: (event: RuleEvent) => unknown; characters: number },
): Matches {
  const found = new Set<CharacterSet>()
  const costs = tests.map(({ cost = noCost }) => withoutFound(cost, found))
  const sum = costs.reduce(added, noCost)
  const highest = unitsOf(sum, characters)
  const free = (freeUnits / highest) * characters
  const [only] = tests
  const decides = (given: unknown) => (test: Test) => holds(test, given) !== isAll
  const matches: Matches = (event, work) => {
    const given = read(event)
    if (isMissing(given)) return false
    const size = highest > freeUnits ? sizeOf(given) : 0
    if (size > free) work?.count(unitsOf(sum, size))
    if (tests.length === 1) return holds(only!, given)
    return tests.some(decides(given)) !== isAll
  }
  matches.units = highest
  if (highest <= costlyUnits || tests.length === 1) return matches
  matches.inSlices = function* (event, work) {
    const given = read(event)
    if (isMissing(given)) return false
    const size = sizeOf(given)
    for (const [index, test] of tests.entries()) {
      work.count(unitsOf(costs[index]!, size))
      if (work.isSliceOver()) yield
      if (holds(test, given) !== isAll) return !isAll
    }
    return isAll
  }
  return matches
}

export const isMissing = (value: unknown): boolean => value === undefined || value === null
