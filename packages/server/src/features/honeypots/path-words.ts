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

/** Text in quotes may not end. The alternatives of a repetition begin with other characters, so reading is linear. */
const plainText = /[^\s;|&<>()`'"\\$]+/y
const withEscapes = /\$?"((?:[^"\\]+|\\.)*)"?|(\\.?)/sy
const ansiQuoted = /\$'((?:[^'\\]+|\\.)*)'?/sy
const singleQuoted = /'([^']*)'?/y
const separators = /[\s;|&<>()`]/
/** Delimiter of a here-document; `<<<` is followed by a text instead. */
const hereDocument = /(?<!<)<<-?[ \t]*(["']?)([A-Za-z_]\w*)\1/y

const at = (pattern: RegExp, text: string, place: number): RegExpExecArray | null => {
  pattern.lastIndex = place
  return pattern.exec(text)
}

/** Adds to a word what stands at a place: plain text, text in quotes or an escaped character. Returns its length. */
function addPart(word: ShellWord, command: string, place: number): number {
  const add = ({ length }: string, plain: string, escaped = plain): number => {
    word.plain += plain
    word.escaped += escaped
    return length
  }
  const [plain] = at(plainText, command, place) ?? []
  if (plain !== undefined) {
    word.hasBraces ||= plain.includes('{')
    return add(plain, plain)
  }
  const [escapable, inDouble, escaped] = at(withEscapes, command, place) ?? []
  if (escapable !== undefined) {
    const written = inDouble ?? escaped!
    return add(escapable, written.replace(/\\(?:\n|(.?))/gs, '$1'), written)
  }
  const [single, inSingle] = at(singleQuoted, command, place) ?? []
  if (single !== undefined) return add(single, inSingle!)
  const [ansi, inAnsi] = at(ansiQuoted, command, place) ?? []
  if (ansi !== undefined) return add(ansi, withoutEscapes(inAnsi!))
  return add('$', '$')
}

/** Programs that run what they read. */
const shell = /(?:^|[\s/|;&(])(?:[a-z]{0,4}sh|source|eval|\.|xargs|env)(?=[\s<|;&)]|$)|\|/

/** Returns the place of the line that closes a here-document; 0 if there is none. */
function endOfDocument(command: string, delimiter: string, place: number): number {
  const closing = new RegExp(`\\n\\t*${delimiter}(?=\\n|$)`, 'g')
  closing.lastIndex = place
  return closing.exec(command)?.index ?? 0
}

/** The words of each command between separators (`;`, `|`, `&`, line ends, brackets), quotes and escapes removed. */
export function simpleCommands(text: string): ShellWord[][] {
  const command = spacedOut(text)
  const commands: ShellWord[][] = [[]]
  let word: ShellWord = { plain: '', escaped: '', hasBraces: false, isData: false }
  let lineStart = 0
  /** The here-document of this line, and where the last one ends. */
  let document: string | undefined
  let dataUntil = 0
  const endWord = (place: number): void => {
    if (word.escaped !== '') commands.at(-1)!.push(word)
    word = { plain: '', escaped: '', hasBraces: false, isData: place < dataUntil }
  }
  for (let place = 0; place < command.length; ) {
    const character = command[place]!
    if (!separators.test(character)) {
      place += addPart(word, command, place)
      continue
    }
    if (character === '<') document = at(hereDocument, command, place)?.[2] ?? document
    if (character === '\n') {
      const isRead = document === undefined || shell.test(command.slice(lineStart, place))
      if (!isRead) dataUntil = endOfDocument(command, document!, place)
      document = undefined
      lineStart = place + 1
    }
    endWord(place)
    if (/[\n;|&()`]/.test(character) && commands.at(-1)!.length > 0) commands.push([])
    place += 1
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
