import { listLimits, ruleLimits } from '@wardline/contract'
import { sliceUnits } from '../../../work-turns.ts'
import { added, entriesCost, inMs, noCost, sizeCost, unitsOf } from './cost.ts'
import type { Faults, Path } from './fault.ts'
import type { Field } from './fields.ts'
import type { Test } from './modifiers.ts'

/** Adds up the cost of a rule's tests, which share its limits. */
export class Budget {
  #compared = 0
  #signs = 0
  #expressions = 0
  #names = 0
  #tests = 0
  #forms = 0
  #entries = 0
  readonly #deepFields = new Set<string>()
  #units = 0

  /** The highest units that the rule costs an event. */
  get units(): number {
    return this.#units + sizeCost(this.#tests, this.#deepFields.size) + entriesCost(this.#entries)
  }

  /** Counts units that are not those of a test. */
  add(units: number): void {
    this.#units += units
  }

  /** Counts a field that is tested, or that a correlation reads. */
  read({ name, isDeep }: Pick<Field, 'name' | 'isDeep'>): void {
    this.#tests += 1
    if (isDeep) this.#deepFields.add(name)
  }

  /** Counts values that are compared instead of one; whether they are too many. */
  exceedsForms(forms: number): boolean {
    this.#forms += forms
    return this.#forms > ruleLimits.values
  }

  /** Counts values that come from lists; whether they are too many. */
  exceedsEntries(entries: number): boolean {
    this.#entries += entries
    return this.#entries > listLimits.expanded
  }

  /** Adds selections named by a condition; adds a fault when they exceed the limit of the rule. */
  name(selections: number, path: Path, faults: Faults): void {
    const before = this.#names
    this.#names += selections
    const { conditionNames } = ruleLimits
    if (before <= conditionNames && this.#names > conditionNames) {
      faults.add(
        path,
        `The conditions of this rule name ${this.#names} selections so far, each time counted; at most ${conditionNames} are possible.`,
      )
    }
  }

  /** Adds the cost of the expressions for a value; returns a sentence if it is too much. */
  spendExpressions(tests: readonly Test[], { characters }: Field): string | undefined {
    const { passes, sets } = tests.reduce((sum, { cost }) => (cost?.passes ? added(sum, cost) : sum), noCost)
    if (passes === 0) return undefined
    this.#expressions += unitsOf({ ...noCost, passes, sets }, characters)
    const { expressionMs } = ruleLimits
    if (this.#expressions <= expressionMs * sliceUnits) return undefined
    return `The regular expressions of this rule cost an event of 16 KiB up to ${inMs(this.#expressions)} ms so far; at most ${expressionMs} ms are possible. Use fewer or shorter expressions, or a field outside metadata, which is shorter.`
  }

  /** Counts a test that is compared with values; returns a sentence if a limit is exceeded. */
  spend({ cost }: Pick<Test, 'cost'>): string | undefined {
    if (cost === undefined) return undefined
    this.#compared += cost.compared
    this.#signs += cost.signs
    const { comparedValues, wildcardSigns } = ruleLimits
    if (this.#compared > comparedValues) {
      return `A rule has at most ${comparedValues} values with contains, startswith, endswith or wildcards.`
    }
    if (this.#signs > wildcardSigns) {
      return `A rule has at most ${wildcardSigns} characters in parts with ? between two *.`
    }
    return undefined
  }
}
