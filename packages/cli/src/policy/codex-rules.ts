import { type Decision, type Imported, rulesOf } from './imported.ts'

const decisions: Record<string, Decision> = { allow: 'allow', prompt: 'ask', forbidden: 'deny' }
/** Alternatives of one pattern: the words that follow each other are multiplied. */
const maxAlternatives = 100

type Value = string | Value[]
type Call = Record<string, Value>

/**
 * Converts the lines `prefix_rule(…)` of Codex' rules to a policy. Both take the strictest rule that matches. Undefined: the
 * text has none.
 */
export function importCodexRules(text: string): Imported | undefined {
  const notes: string[] = []
  const found: Record<Decision, string[]> = { allow: [], ask: [], deny: [] }
  const calls = callsIn(text)
  if (calls.length === 0) return undefined
  for (const [at, call] of calls.entries()) {
    const place = `prefix_rule ${at + 1}`
    const { pattern, decision = 'allow' } = call ?? {}
    const known = typeof decision === 'string' ? decisions[decision] : undefined
    const prefixes = Array.isArray(pattern) ? prefixesOf(pattern) : undefined
    if (!prefixes || known === undefined) {
      notes.push(`${place} is left out: it needs pattern=["git", …] and decision="allow", "prompt" or "forbidden"`)
      continue
    }
    for (const prefix of prefixes) found[known].push(`Bash(${prefix})`, `Bash(${prefix} *)`)
  }
  // Codex asks about a command that no rule names, unless its sandbox holds it.
  const document = { title: 'Rules of Codex', mode: 'observe', default: 'allow', rules: rulesOf(found) }
  notes.push('commands that no rule names are allowed here: in Codex the sandbox and approval_policy decide on them')
  return { document, notes }
}

/** Returns the beginnings of commands that a pattern means; undefined if it is none. */
function prefixesOf(pattern: readonly Value[]): string[] | undefined {
  let prefixes = ['']
  for (const word of pattern) {
    const words = Array.isArray(word) ? word : [word]
    if (words.length === 0 || !words.every((each) => typeof each === 'string' && /^[^\s()]+$/.test(each)))
      return undefined
    prefixes = prefixes.flatMap((prefix) => words.map((each) => `${prefix} ${each}`.trim()))
    if (prefixes.length > maxAlternatives) return undefined
  }
  return pattern.length === 0 ? undefined : prefixes
}

/** Reads the calls of prefix_rule in a text; undefined for one that cannot be read. */
function callsIn(text: string): (Call | undefined)[] {
  const tokens =
    text
      .match(/#.*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[A-Za-z_]\w*|[^\s]/g)
      ?.filter((token) => !token.startsWith('#')) ?? []
  return tokens.flatMap((token, at) =>
    token === 'prefix_rule' && tokens[at + 1] === '(' ? [new CallReader(tokens, at + 2).call()] : [],
  )
}

class CallReader {
  readonly #tokens: readonly string[]
  #at: number

  constructor(tokens: readonly string[], at: number) {
    this.#tokens = tokens
    this.#at = at
  }

  call(): Call | undefined {
    const call: Call = {}
    while (this.#tokens[this.#at] !== ')') {
      const name = this.#tokens[this.#at]
      if (name === undefined || this.#tokens[this.#at + 1] !== '=') return undefined
      this.#at += 2
      const value = this.#value(0)
      if (value === undefined) return undefined
      call[name] = value
      if (this.#tokens[this.#at] === ',') this.#at += 1
    }
    return call
  }

  #value(depth: number): Value | undefined {
    const token = this.#tokens[this.#at++]
    if (token === undefined || depth > 2) return undefined
    if (/^["']/.test(token)) return token.slice(1, -1).replace(/\\(.)/g, '$1')
    if (token !== '[') return undefined
    const list: Value[] = []
    while (this.#tokens[this.#at] !== ']') {
      const value = this.#value(depth + 1)
      if (value === undefined) return undefined
      list.push(value)
      if (this.#tokens[this.#at] === ',') this.#at += 1
    }
    this.#at += 1
    return list
  }
}
