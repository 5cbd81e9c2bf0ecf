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
  const found = words.flatMap(({ plain, escaped }) => (plain === escaped ? [plain] : [plain, escaped]))
  // A quoted word may be a program (`sh -c "…"`), so its parts are checked as well.
  if (/["']/.test(spaced)) found.push(...spaced.split(/[\s;|&<>()`"']+/))
  const parts: string[] = []
  const expansion = new ShellExpansion(budget)
  for (const word of found) {
    for (const expanded of expansion.of(word)) {
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
}

const ansiQuoted = /'((?:[^'\\]|\\.)*)'?/

/** The words of each command between separators (`;`, `|`, `&`, line ends, brackets), quotes and escapes removed. */
export function simpleCommands(text: string): ShellWord[][] {
  const command = spacedOut(text)
  const commands: ShellWord[][] = [[]]
  let word: ShellWord = { plain: '', escaped: '' }
  let quote = ''
  const endWord = (): void => {
    if (word.escaped !== '') commands.at(-1)!.push(word)
    word = { plain: '', escaped: '' }
  }
  for (let place = 0; place < command.length; place++) {
    const character = command[place]!
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
      endWord()
      if (/[\n;|&()`]/.test(character) && commands.at(-1)!.length > 0) commands.push([])
    } else {
      word.plain += character
      word.escaped += character
    }
  }
  endWord()
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
