import { withoutEscapes } from './text-escapes.ts'

/** A web address names no file here, unless its dots lead out of it again. */
export function isWebAddress(names: readonly string[]): boolean {
  return names[0] === 'http:' || names[0] === 'https:'
}

/**
 * The words of a shell command with quotes and escapes removed, braces expanded, and the parts behind `=`, `@`, `,` and
 * `:` added separately (`--file=/x`, `@/x`, `host:/x`). A text without a space or sign of the shell is one word. Words
 * keep their order, so that a `cd` can be distinguished from what follows it. Linear in the text.
 */
export function shellWords(command: string): string[] {
  const spaced = spacedOut(command)
  const words = simpleCommands(command).flat()
  const found = words.flatMap(({ plain, escaped }) => (plain === escaped ? [plain] : [plain, escaped]))
  // A quoted word may be a program (`sh -c "…"`), so its parts are checked as well.
  if (/["']/.test(spaced)) found.push(...spaced.split(/[\s;|&<>()`"']+/))
  return found.filter((word) => word !== '').flatMap((word) => withParts(word))
}

/** Blanks and the working folder, where a command writes them in another way. */
function spacedOut(command: string): string {
  return command.replace(/\$\{?IFS\}?/g, ' ').replace(/\$\(pwd\)|`pwd`/g, '.')
}

/** A word as the shell reads it, and with its backslashes, which may be separators of Windows. */
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

/** Brace lists beyond this many members are left as they are. */
const maxBraceMembers = 16

function withParts(word: string): string[] {
  const parts = [word]
  const brace = /^([^{}]*[^{}$]|)\{([^{}]*,[^{}]*)\}(.*)$/s.exec(word)
  if (brace !== null) {
    const members = brace[2]!.split(',').slice(0, maxBraceMembers)
    parts.push(...members.map((member) => brace[1]! + member + brace[3]!))
  }
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(word)) return parts
  const pieces = word.split(/[=@,:]/)
  // A name may hold such a sign itself, so all that follows the first one counts as well.
  if (pieces.length > 1) parts.push(...pieces, word.slice(pieces[0]!.length + 1))
  if (word.startsWith('-')) parts.push(word.slice(word.search(/[/~\\]|$/)))
  return parts.filter((part) => part !== '')
}
