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
const parameter = /\$(?!env:)(?:([A-Za-z_]\w*|[\d@*#?!$-])|\{[!#]?(\w+(?!\w)|[@*])(?::?[-=+?]([^{}]*)|[^{}]*)\})/gi
const assignment = /^([A-Za-z_]\w{0,99})=(.+)$/s

const knownVariables: ReadonlyMap<string, string> = new Map([
  ['HOME', '~'],
  ['PWD', '.'],
])

/** Expands the words of one command, in order: braces, and variables by the last value that the command itself set. */
export class ShellExpansion {
  readonly #budget: WorkBudget
  #isData = false
  /** Separate, so that a here-document does not use up what other words need. */
  readonly #leftOf = { data: new WorkBudget(maxExpandedCharacters), words: new WorkBudget(maxExpandedCharacters) }
  readonly #values = new Map<string, string>()

  constructor(budget: WorkBudget) {
    this.#budget = budget
  }

  /**
   * Returns what a word expands to, most plausible first, and the word itself. `hasBraces`: some are outside quotes.
   * `isData`: it is in a here-document, where what exceeds the limit is not recorded: most of them are files.
   */
  *of(word: string, { hasBraces, isData }: { hasBraces: boolean; isData: boolean }): Generator<string> {
    this.#isData = isData
    const replaced = this.#replaced(word)
    const [, name, value] = assignment.exec(replaced) ?? []
    if (name !== undefined) this.#values.set(name, value!)
    for (const text of replaced === '' ? [word] : new Set([replaced, word])) {
      if (hasBraces) yield* this.#withoutBraces(text)
      else yield text
    }
  }

  get #left(): WorkBudget {
    return this.#isData ? this.#leftOf.data : this.#leftOf.words
  }

  #exhaust(): void {
    if (!this.#isData) this.#budget.exhaust()
  }

  /** Replaces variables by their values, and those that the command does not set by nothing. */
  #replaced(word: string): string {
    if (!word.includes('$') || this.#left.isSpent) return word
    let length = 0
    const replaced = word.replace(parameter, (_, plain?: string, braced?: string, fallback = '') => {
      const name = plain ?? braced!
      const value = this.#values.get(name) ?? knownVariables.get(name.toUpperCase()) ?? fallback
      length += value.length
      return length < maxReplacedCharacters ? value : ''
    })
    if (length >= maxReplacedCharacters) this.#exhaust()
    if (this.#left.take(charactersOfWord + replaced.length)) return replaced
    this.#exhaust()
    return word
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

function braceMembers(list: string): string[] {
  if (list.includes(',')) return list.split(',')
  const [from, to] = list.split('..') as [string, string]
  const code = (end: string) => (/\d/.test(end) ? Number(end) : end.charCodeAt(0))
  const [low, high] = [Math.min(code(from), code(to)), Math.max(code(from), code(to))]
  return Array.from({ length: high - low + 1 }, (_, step) =>
    /\d/.test(from) ? String(low + step) : String.fromCharCode(low + step),
  )
}
