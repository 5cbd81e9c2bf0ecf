import { WorkBudget } from '../../work-turns.ts'

/**
 * Maximum number of characters that the words of a command expand to: more than in commands of honest agents, and so
 * few that most of the budget is left for the other words. The budget records what is not expanded.
 */
const maxExpandedCharacters = 32_768
/** Cost of a word in addition to its characters. */
const charactersOfWord = 20
/** Maximum length of a word with its variables replaced; no system opens a longer path. */
const maxReplacedCharacters = 4_096

/** Longer ranges than 0..99 are not expanded: names in homes seldom have such numbers. */
const braceList = /(?<!\$)\{([^{},]*(?:,[^{},]*)+|[a-z]\.\.[a-z]|[A-Z]\.\.[A-Z]|\d{1,2}\.\.\d{1,2})\}/
/** `$x`, `${x}`, `${x:-word}`, `${x%word}` and the special parameters. `$env:x` is PowerShell's. */
const parameter = /\$(?!env:)(?:([A-Za-z_]\w*|[\d@*#?!$-])|\{[!#]?(\w+|[@*])(?::?[-=+?]([^{}]*)|[^{}]*)\})/gi
const assignment = /^([A-Za-z_]\w{0,99})=(.+)$/s

const knownVariables: ReadonlyMap<string, string> = new Map([
  ['HOME', '~'],
  ['PWD', '.'],
])

/** Values of a variable: those that may stand in a brace list, and others. */
interface Values {
  plain: Set<string>
  odd: string[]
}

/** Expands the words of one command, in order, as Bash does: braces, and variables that the command itself sets. */
export class ShellExpansion {
  readonly #budget: WorkBudget
  #isData = false
  /** Separate, so that a here-document does not use up what other words need. */
  readonly #leftOf = { data: new WorkBudget(maxExpandedCharacters), words: new WorkBudget(maxExpandedCharacters) }
  /** Every value that a variable was set to, because which of them holds depends on the run. */
  readonly #values = new Map<string, Values>()
  /** The variable of a `for` whose words follow. */
  #loop: { name: string; isOpen: boolean } | undefined

  constructor(budget: WorkBudget) {
    this.#budget = budget
  }

  /**
   * Returns what a word expands to, most plausible first, and the word itself. `hasBraces`: some are outside quotes.
   * `isData`: it is in a here-document, where what exceeds the limit is not recorded: most of them are files.
   */
  *of(word: string, { hasBraces, isData }: { hasBraces: boolean; isData: boolean }): Generator<string> {
    this.#isData = isData
    let isReplaced = false
    for (const replaced of this.#replaced(word)) {
      isReplaced = true
      this.#note(replaced)
      yield* this.#withoutBraces(replaced)
    }
    if (!isReplaced) this.#note(word)
    if (hasBraces) yield* this.#withoutBraces(word)
    else yield word
  }

  get #left(): WorkBudget {
    return this.#isData ? this.#leftOf.data : this.#leftOf.words
  }

  #exhaust(): void {
    if (!this.#isData) this.#budget.exhaust()
  }

  #note(word: string): void {
    const [, name, value] = assignment.exec(word) ?? []
    if (name !== undefined) this.#set(name, value!)
    if (this.#loop?.isOpen) {
      if (word === 'do') this.#loop = undefined
      else this.#set(this.#loop.name, word)
    } else if (this.#loop?.name === '') this.#loop.name = word
    else if (this.#loop && word === 'in') this.#loop.isOpen = true
    else this.#loop = word === 'for' ? { name: '', isOpen: false } : undefined
  }

  #set(name: string, value: string): void {
    const values = this.#values.get(name) ?? { plain: new Set(), odd: [] }
    this.#values.set(name, values)
    if (/[{},]/.test(value)) values.odd.push(value)
    else values.plain.add(value)
  }

  /**
   * Returns a word with its variables replaced, or nothing if it has none: several values as a brace list, each value
   * with braces or commas in a separate word, and a variable that the command does not set as empty.
   */
  *#replaced(word: string): Generator<string> {
    if (!word.includes('$') || this.#left.isSpent) return
    for (let round = 0, rounds = 1; round < rounds; round++) {
      let length = 0
      const replaced = word.replace(parameter, (_, plain?: string, braced?: string, fallback = '') => {
        if (length >= maxReplacedCharacters) return ''
        const name = plain ?? braced!
        const values = this.#values.get(name)
        if (values !== undefined) rounds = Math.max(rounds, values.odd.length + Math.min(values.plain.size, 1))
        const value = values ? valuesIn(values, round) : (knownVariables.get(name.toUpperCase()) ?? fallback)
        length += value.length
        return length < maxReplacedCharacters ? value : ''
      })
      if (length >= maxReplacedCharacters) this.#exhaust()
      if (replaced === word || replaced === '') continue
      if (!this.#left.take(charactersOfWord + replaced.length)) return this.#exhaust()
      yield replaced
    }
  }

  /**
   * `a{b,c}` is `ab` and `ac`, `{a..c}` is `a`, `b` and `c`. The innermost braces are expanded first, so lists may be
   * nested.
   */
  *#withoutBraces(word: string): Generator<string> {
    const words = [word]
    for (const partial of words) {
      yield partial
      const list = braceList.exec(partial)
      if (list === null || this.#left.isSpent) continue
      const before = partial.slice(0, list.index)
      const after = partial.slice(list.index + list[0].length)
      for (const member of braceMembers(list[1]!)) {
        const expanded = before + member + after
        if (!this.#left.take(charactersOfWord + expanded.length)) return this.#exhaust()
        words.push(expanded)
      }
    }
  }
}

/** Returns the plain values together, and in each further round one of the others. */
function valuesIn({ plain, odd }: Values, round: number): string {
  const other = odd[plain.size > 0 ? round - 1 : round]
  if (other !== undefined || plain.size === 0) return other ?? odd[0]!
  const members = [...plain].join()
  return plain.size === 1 ? members : `{${members}}`
}

function braceMembers(list: string): string[] {
  if (list.includes(',')) return list.split(',')
  const [from, to] = list.split('..') as [string, string]
  const code = (end: string) => (/\d/.test(end) ? Number(end) : end.charCodeAt(0))
  const [low, high] = [Math.min(code(from), code(to)), Math.max(code(from), code(to))]
  return Array.from({ length: high - low + 1 }, (_, step) =>
    /\d/.test(from) ? String(low + step) : String.fromCharCode(low + step),
  )
}
