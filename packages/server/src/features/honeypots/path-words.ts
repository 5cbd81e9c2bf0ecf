/** A web address names no file here, unless its dots lead out of it again. */
export function isWebAddress(path: string): boolean {
  return /^https?:\//.test(path)
}

/**
 * The words of a shell command with quotes and escapes removed, braces expanded, and the parts behind `=`, `@`, `,`
 * and `:` on their own (`--file=/x`, `@/x`, `host:/x`). A text without a space or sign of the shell is one word.
 * Words keep their order, so that a `cd` can be told from what follows it. Linear in the text.
 */
export function shellWords(command: string): string[] {
  const spaced = command.replace(/\$\{?IFS\}?/g, ' ')
  // A quoted word may be a program of its own (`sh -c "…"`), so its parts are tried as well.
  const words = /["']/.test(spaced) ? [...splitWords(spaced), ...spaced.split(/[\s;|&<>()`"']+/)] : splitWords(spaced)
  return words.flatMap((word) => withParts(word))
}

function splitWords(command: string): string[] {
  const words: string[] = []
  let plain = ''
  let escaped = ''
  let quote = ''
  const endWord = (): void => {
    if (plain !== '') words.push(plain)
    // Backslashes may be escapes or Windows separators, so a word that has them is kept both ways.
    if (escaped !== plain) words.push(escaped)
    plain = ''
    escaped = ''
  }
  for (let place = 0; place < command.length; place++) {
    const character = command[place]!
    if (character === '\\' && quote !== "'") {
      const next = command[place + 1] ?? ''
      plain += next === '\n' ? '' : next
      escaped += character + next
      place++
    } else if (quote !== '' ? character === quote : character === "'" || character === '"') {
      quote = quote === '' ? character : ''
    } else if (quote === '' && /[\s;|&<>()`]/.test(character)) {
      endWord()
    } else {
      plain += character
      escaped += character
    }
  }
  endWord()
  return words
}

/** Brace lists beyond this many members are left as they are. */
const MAX_BRACE_MEMBERS = 16

function withParts(word: string): string[] {
  const parts = [word]
  const brace = /^([^{}]*[^{}$]|)\{([^{}]*,[^{}]*)\}(.*)$/s.exec(word)
  if (brace !== null) {
    const members = brace[2]!.split(',').slice(0, MAX_BRACE_MEMBERS)
    parts.push(...members.map((member) => brace[1]! + member + brace[3]!))
  }
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(word)) return parts
  const pieces = word.split(/[=@,:]/)
  // A name may hold such a sign itself, so all that follows the first one counts as well.
  if (pieces.length > 1) parts.push(...pieces, word.slice(pieces[0]!.length + 1))
  if (word.startsWith('-')) parts.push(word.slice(word.search(/[/~\\]|$/)))
  return parts.filter((part) => part !== '')
}
