import { ReadText } from './read-text.ts'

type Scalar = string | number | boolean

const isScalar = (value: unknown): value is Scalar =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'

/** The scalars of a list and of the lists in it, indexed once for all tests: rules have hundreds, a list thousands. */
export class ListIndex {
  readonly scalars: readonly Scalar[]
  /** Characters of the scalars, and one between them. */
  readonly characters: number
  #set: ReadonlySet<unknown> | undefined
  #joined: string | undefined
  #range: readonly number[] | undefined
  #text: ReadText | undefined

  constructor(list: readonly unknown[]) {
    this.scalars = list.flat(Number.POSITIVE_INFINITY).filter(isScalar)
    this.characters = this.scalars.reduce<number>((sum, each) => sum + 1 + String(each).length, 0)
  }

  has(value: Scalar): boolean {
    this.#set ??= new Set(this.scalars)
    return this.#set.has(value)
  }

  hasAnyOf(values: ReadonlySet<Scalar>): boolean {
    if (values.size > this.scalars.length) return this.scalars.some((each) => values.has(each))
    for (const value of values) if (this.has(value)) return true
    return false
  }

  /** Whether a text is in one of the scalars, or across some of them: if not, a search in each finds nothing. */
  mayContain(text: string): boolean {
    this.#joined ??= this.scalars.join('\n')
    return this.#joined.includes(text)
  }

  /** The scalars as texts, for expressions. */
  get text(): ReadText {
    this.#text ??= new ReadText(this.scalars.map(String))
    return this.#text
  }

  /** The lowest and the highest number; empty if there is none. */
  get range(): readonly number[] {
    if (this.#range === undefined) {
      const numbers = this.scalars.filter((each) => typeof each === 'number')
      const lowest = numbers.reduce((found, each) => Math.min(found, each), Number.POSITIVE_INFINITY)
      const highest = numbers.reduce((found, each) => Math.max(found, each), Number.NEGATIVE_INFINITY)
      this.#range = numbers.length === 0 ? [] : [lowest, highest]
    }
    return this.#range
  }
}

const indexes = new WeakMap<readonly unknown[], ListIndex>()

/** The index of a list, which fields return as the same list for all tests of an event. */
export function indexOf(list: readonly unknown[]): ListIndex {
  let index = indexes.get(list)
  if (!index) {
    index = new ListIndex(list)
    indexes.set(list, index)
  }
  return index
}
