import { limits, ruleLimits } from '@wardline/contract'
import { sliceUnits } from '../../../work-turns.ts'

/** Costs of tests in addition to a lookup. */
export interface Cost {
  /** Values that are searched for or compared one by one. */
  compared: number
  /** Characters of parts with `?` that are searched for. */
  signs: number
  expressions: number
  /** Instructions of expressions that read the beginning of a value. */
  sizes: number
  /** Lists of networks. */
  networks: number
}

export const noCost: Readonly<Cost> = { compared: 0, signs: 0, expressions: 0, sizes: 0, networks: 0 }

/**
 * Units of `WorkBudget` (about 2 ns) for reading a value of so many characters. Measured with the costliest texts and
 * lists that were found: 16 µs for `contains` and 16 KiB, 0.3 ms for an expression, 35 µs for a sign, 5 ms for 200
 * instructions, 0.3 ms for addresses.
 */
export function unitsOf({ compared, signs, expressions, sizes, networks }: Cost, characters: number): number {
  const each = compared / 2 + signs + 10 * (expressions + networks)
  return Math.ceil(characters * each) + 12 * sizes * Math.min(characters, ruleLimits.expressionText)
}

/** Units for each value of an event that a correlation compares with earlier ones. */
export const valueUnits = 150

/** Distinct values in a list in metadata: most have four characters and a comma. */
const maxValues = Math.ceil(limits.metadataBytes / 5)

/** Units of a walk through metadata of 16 KiB: 0.3 ms for a list of 5,000 elements. */
const walkUnits = 160_000
/** Fields found by such walks that cost a rule nothing: rules share what they read, and most name the same few. */
const freeWalks = 20
/** Tests that cost a rule nothing, and units of each further one, which are for its memory of some 3 KiB. */
const freeTests = 100
const testUnits = 10_000

/** Units of a rule with so many tests, on so many different fields that are found by a walk. */
export const sizeCost = (tests: number, walks: number): number =>
  testUnits * Math.max(0, tests - freeTests) + walkUnits * Math.max(0, walks - freeWalks)

/** Units that the values of an event cost a correlation at worst: one field can be a list, several have one value. */
export const highestValuesCost = (fields: readonly { isList: boolean }[]): number =>
  fields.length === 1 && fields[0]!.isList ? valueUnits * maxValues : 0

/** Units for a pattern of an exception, which is compared with the instance or with each of its tags. */
const patternUnits = 10
export const exceptionsCost = (patterns: number, tags: number): number => patternUnits * patterns * (1 + tags)

const inMs = (units: number): string => (units / sliceUnits).toFixed(1)

/** Why a rule of this cost cannot run beside others; undefined if it can. */
export function costFault(cost: number, others: number): string | undefined {
  const { eventMs } = ruleLimits
  if (cost + others <= eventMs * sliceUnits) return undefined
  return `The rule costs an event of 16 KiB up to ${inMs(cost)} ms, and the other rules ${inMs(others)} ms: all rules together may cost at most ${eventMs} ms. Use fewer values with contains or wildcards, fewer regular expressions and fewer fields, above all on metadata, or delete a rule.`
}
