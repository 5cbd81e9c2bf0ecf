/** Nesting of quotes and substitutions that is followed. */
const maxNesting = 64

/** Whether a text is nested deeper than is followed: where it ends is not known then. */
class TooDeep extends Error {}

/** Runs `read`; undefined for a text that is nested too deeply. */
export function unlessTooDeep<Value>(read: () => Value): Value | undefined {
  try {
    return read()
  } catch (fault) {
    if (fault instanceof TooDeep) return undefined
    throw fault
  }
}

/** Whether `$(…)`, `<(…)` or backticks begin here. */
export const isSubstitution = (line: string, at: number): boolean =>
  line[at] === '`' || (line[at + 1] === '(' && /[$<>]/.test(line[at]!))

/** Returns where double quotes end, that begin before `from`. */
export function endOfQuoted(line: string, from: number, nesting = 0): number {
  if (nesting > maxNesting) throw new TooDeep()
  for (let at = from; at < line.length; at++) {
    if (line[at] === '\\') at += 1
    else if (line[at] === '"') return at
    else if (line[at] === '`' || (line[at] === '$' && line[at + 1] === '(')) {
      at = endOfSubstitution(line, at, nesting + 1)
    }
  }
  return line.length
}

/** Returns where a substitution ends, that begins at `from`: its last sign, or the end of the line. */
export function endOfSubstitution(line: string, from: number, nesting = 0): number {
  if (nesting > maxNesting) throw new TooDeep()
  const isBackticks = line[from] === '`'
  let depth = 0
  for (let at = from + 1; at < line.length; at++) {
    const sign = line[at]
    if (sign === '\\') at += 1
    else if (isBackticks) {
      if (sign === '`') return at
    } else if (sign === "'") {
      const end = line.indexOf("'", at + 1)
      at = end < 0 ? line.length : end
    } else if (sign === '"') at = endOfQuoted(line, at + 1, nesting + 1)
    else if (sign === '(') depth += 1
    else if (sign === ')' && --depth === 0) return at
  }
  return line.length
}

/** Returns the commands of one substitution; those within it for arithmetic, `$((…))`. */
export function commandsIn(line: string, from: number, end: number): string[] {
  const text = line.slice(line[from] === '`' ? from + 1 : from + 2, end)
  const isArithmetic = line[from] === '$' && text[0] === '(' && endOfSubstitution(`$${text}`, 0) === text.length
  return isArithmetic ? substitutionsOf(text) : [text]
}

/** Returns the commands of the substitutions in a text in double quotes. */
export function substitutionsOf(text: string): string[] {
  const found: string[] = []
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '\\') at += 1
    else if (text[at] === '`' || (text[at] === '$' && text[at + 1] === '(')) {
      const end = endOfSubstitution(text, at)
      found.push(...commandsIn(text, at, end))
      at = end
    }
  }
  return found
}

/** A text in double quotes as the shell reads it. */
export const unquoted = (text: string): string =>
  text.replaceAll(/\\(["\\$`\n])/g, (_all, sign: string) => (sign === '\n' ? '' : sign))

const escapes: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  e: '\x1b',
  E: '\x1b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
}

/** Returns a text in `$'…'` as bash reads it, and where it ends. `from`: behind the quote. */
export function ansiQuoted(line: string, from: number): { text: string; end: number } {
  let end = from
  while (end < line.length && line[end] !== "'") end += line[end] === '\\' ? 2 : 1
  const text = line
    .slice(from, end)
    .replaceAll(
      /\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))/gs,
      (_all, x, u, long, octal, sign) => {
        if (sign !== undefined) return escapes[sign] ?? sign
        const code = octal === undefined ? Number.parseInt(x ?? u ?? long, 16) : Number.parseInt(octal, 8) % 256
        return code <= 0x10ffff ? String.fromCodePoint(code) : ''
      },
    )
  return { text, end }
}
