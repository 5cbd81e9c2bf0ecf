import { limits, ruleLimits } from '@wardline/contract'
import { sliceUnits } from '../../../work-turns.ts'
import type { CharacterSet } from './character-set.ts'

/** Costs of tests in addition to a lookup. */
export interface Cost {
  /** Values that are searched for or compared one by one. */
  compared: number
  /** Characters of parts with `?` that are searched for. */
  signs: number
  /** Passes of expressions over a bit for each character. */
  passes: number
  /** Sets of characters of expressions, whose places are found once for all tests of a value. */
  sets: readonly CharacterSet[]
  /** Lists of networks. */
  networks: number
}

export const noCost: Readonly<Cost> = { compared: 0, signs: 0, passes: 0, sets: [], networks: 0 }

/** Passes that take as long as finding the places of a set: of one or two letters, of others, of such that are not ASCII. */
const setPasses = ({ ranges }: CharacterSet): number => {
  const isLetter = ranges.length <= 4 && ranges.every((code, at) => at % 2 === 1 || code === ranges[at + 1])
  return isLetter ? 2 : (ranges.at(-1) ?? 0) < 128 ? 25 : 60
}

/** Steps of a pass beside the characters: it takes 20 ns for an empty text. */
const passSteps = 500

/**
 * Units of `WorkBudget` (about 2 ns) for reading a value of so many characters. Measured with the costliest texts and
 * lists that were found: 16 µs for `contains` and 16 KiB, 0.7 µs for a pass, 35 µs for a sign, 0.3 ms for addresses.
 */
export function unitsOf({ compared, signs, passes, sets, networks }: Cost, characters: number): number {
  const each = compared / 2 + signs + 10 * networks
  const inPasses = sets.reduce((sum, set) => sum + setPasses(set), passes)
  return Math.ceil(characters * each + (inPasses * (characters + passSteps)) / 48)
}

/** The cost without the sets that tests before it have found; notes its own. */
export function withoutFound(cost: Cost, found: Set<CharacterSet>): Cost {
  const sets = cost.sets.filter((set) => !found.has(set))
  for (const set of sets) found.add(set)
  return { ...cost, sets }
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

/** Entries of lists that cost a rule nothing, and units of each further one, which are for its memory of some 400 bytes. */
const freeEntries = 1_000
const entryUnits = 300

export const entriesCost = (entries: number): number => entryUnits * Math.max(0, entries - freeEntries)

/** Units that the values of an event cost a correlation at worst: one field can be a list, several have one value. */
export const highestValuesCost = (fields: readonly { isList: boolean }[]): number =>
  fields.length === 1 && fields[0]!.isList ? valueUnits * maxValues : 0

/** Units for adding up the figures of a window, or moving them: 20 µs for the most. */
export const figureUnits = 10_000

/** Units for a pattern of an exception, which is compared with the instance or with each of its tags. */
const patternUnits = 10
export const exceptionsCost = (patterns: number, tags: number): number => patternUnits * patterns * (1 + tags)

export const inMs = (units: number): string => (units / sliceUnits).toFixed(1)

/** Why a rule, or several, of this cost cannot run beside others; undefined if it can. */
export function costFault(cost: number, others: number, begin = 'The rule costs'): string | undefined {
  const { eventMs } = ruleLimits
  if (cost + others <= eventMs * sliceUnits) return undefined
  return `${begin} an event of 16 KiB up to ${inMs(cost)} ms, and the other rules ${inMs(others)} ms: all rules together may cost at most ${eventMs} ms. Use fewer values with contains or wildcards, fewer regular expressions and fewer fields, above all on metadata, or delete a rule.`
}

/** Above these units, the tests of a value are run in slices: a few of them then make one. */
export const costlyUnits = sliceUnits / 4
/** Of a test whose field is found by a walk: a few of them make a slice. */
export const deepUnits = costlyUnits / 4
export function added(one: Cost, other: Cost): Cost {
  return {
    compared: one.compared + other.compared,
    signs: one.signs + other.signs,
    passes: one.passes + other.passes,
    sets: [...new Set([...one.sets, ...other.sets])],
    networks: one.networks + other.networks,
  }
}
