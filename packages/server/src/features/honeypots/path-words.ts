import type { Slices, WorkBudget } from '../../work-turns.ts'
import { ShellExpansion } from './shell-expansion.ts'
import { withoutEscapes } from './text-escapes.ts'

/**
 * Whether a path is a web address and so names no local file. Expects resolved names, because `..` can lead out of the
 * address.
 */
export function isWebAddress(names: readonly string[]): boolean {
  return names[0] === 'http:' || names[0] === 'https:'
}

/**
 * Returns the words of a shell command with quotes and escapes removed, braces and variables expanded, and the parts
 * after `=`, `@`, `,` and `:` added separately (`--file=/x`, `@/x`, `host:/x`). A text without spaces or shell syntax is
 * one word. Words keep their order, because a `cd` affects the words after it. Linear in the text, but for expansion,
 * which has a limit.
 */
export function* shellWords(command: string, budget: WorkBudget): Slices<string[]> {
  const spaced = spacedOut(command)
  const words = simpleCommands(command).flat()
  const found: { text: string; hasBraces: boolean; isData: boolean }[] = words.flatMap((word) =>
    [...new Set([word.plain, word.escaped])].map((text) => ({ ...word, text })),
  )
  // A quoted word may be a program (`sh -c "…"`), so its parts are checked as well.
  if (/["']/.test(spaced)) {
    const data = new Set(found.filter(({ isData }) => isData).map(({ text }) => text))
    for (const text of spaced.split(/[\s;|&<>()`"']+/)) {
      if (text !== '') found.push({ text, hasBraces: true, isData: data.has(text) })
    }
  }
  const parts: string[] = []
  const expansion = new ShellExpansion(budget)
  for (const { text, hasBraces, isData } of found) {
    for (const expanded of expansion.of(text, { hasBraces, isData })) {
      // At worst every second character begins a part.
      if (!budget.take(100 + expanded.length * 10)) break
      parts.push(...partsOf(expanded))
      if (budget.isSliceOver()) yield
    }
  }
  return parts
}

/** Replaces other ways to write a blank (`$IFS`), the working folder (`$(pwd)`), a text (`$(echo a)`) and nothing. */
function spacedOut(command: string): string {
  return command
    .replace(/\$\{?IFS\}?/g, ' ')
    .replace(/\$\(pwd\)|`pwd`/g, '.')
    .replace(/\$\((?:echo )?([^()`;|&<>\s]*)\)|`(?:echo )?([^()`;|&<>\s]*)`/g, '$1$2')
}

/** A word as the shell reads it, and with its backslashes, which may be Windows separators. */
export interface ShellWord {
  plain: string
  escaped: string
  /** Whether it has a brace outside quotes, which Bash expands. */
  hasBraces: boolean
  /** Whether it is in a here-document, where only a shell that reads it expands braces. */
  isData: boolean
}

/** Delimiter of a here-document; `<<<` is followed by a text instead. */
const hereDocument = /<<-?[ \t]*(["'\\]?)([A-Za-z_]\w*)\1/y
/** Programs that run what they read. */
const shell = /(?:^|[\s/|;&(])(?:[a-z]{0,4}sh|source|eval|\.|xargs|env)(?=[\s<|;&)]|$)|\|/

/** Returns the place of the line that closes a here-document; 0 if there is none. */
function endOfDocument(command: string, delimiter: string, place: number): number {
  const closing = new RegExp(`\\n\\t*${delimiter}(?=\\n|$)`, 'g')
  closing.lastIndex = place
  return closing.exec(command)?.index ?? 0
}

const ansiQuoted = /'((?:[^'\\]|\\.)*)'?/

/** The words of each command between separators (`;`, `|`, `&`, line ends, brackets), quotes and escapes removed. */
export function simpleCommands(text: string): ShellWord[][] {
  const command = spacedOut(text)
  const commands: ShellWord[][] = [[]]
  let quote = ''
  /** The here-document of this line, and where the last one ends. */
  let delimiter: string | undefined
  let dataUntil = 0
  const newWord = (place: number): ShellWord => ({
    plain: '',
    escaped: '',
    hasBraces: false,
    isData: place < dataUntil,
  })
  let word = newWord(0)
  const endWord = (place: number): void => {
    if (word.escaped !== '') commands.at(-1)!.push(word)
    word = newWord(place)
  }
  for (let place = 0; place < command.length; place++) {
    const character = command[place]!
    if (character === '<' && command[place - 1] !== '<' && quote === '') {
      hereDocument.lastIndex = place
      delimiter = hereDocument.exec(command)?.[2] ?? delimiter
    } else if (character === '\n' && delimiter !== undefined) {
      const line = command.slice(command.lastIndexOf('\n', place - 1) + 1, place)
      if (!shell.test(line)) dataUntil = endOfDocument(command, delimiter, place)
      delimiter = undefined
    }
    if (quote === '' && character === '$' && (command[place + 1] === "'" || command[place + 1] === '"')) {
      if (command[place + 1] === '"') continue
      const body = new RegExp(ansiQuoted, 'sy')
      body.lastIndex = place + 1
      const quoted = body.exec(command)!
      const decoded = withoutEscapes(quoted[1]!)
      word.plain += decoded
      word.escaped += decoded
      place += quoted[0].length
    } else if (character === '\\' && quote !== "'") {
      const next = command[place + 1] ?? ''
      word.plain += next === '\n' ? '' : next
      word.escaped += character + next
      place++
    } else if (quote !== '' ? character === quote : character === "'" || character === '"') {
      quote = quote === '' ? character : ''
    } else if (quote === '' && /[\s;|&<>()`]/.test(character)) {
      endWord(place)
      if (/[\n;|&()`]/.test(character) && commands.at(-1)!.length > 0) commands.push([])
    } else {
      if (character === '{' && quote === '') word.hasBraces = true
      word.plain += character
      word.escaped += character
    }
  }
  endWord(command.length)
  return commands
}

function partsOf(word: string): string[] {
  const parts = [word]
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(word)) return parts
  const pieces = word.split(/[=@,:]/)
  // A name may itself contain such a character, so everything after the first one is also checked.
  if (pieces.length > 1) parts.push(...pieces, word.slice(pieces[0]!.length + 1))
  if (word.startsWith('-')) parts.push(word.slice(word.search(/[/~\\]|$/)))
  return parts.filter((part) => part !== '')
}
