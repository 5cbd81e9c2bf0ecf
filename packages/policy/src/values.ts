import { normalized, withoutEnd } from './words.ts'

/** Values read from one answer. A longer list is a dump, in which a value proves little. */
const maxValues = 5_000
/** Characters of a text whose values are read. One of more is such a dump: it has none. */
const maxText = 262_144
/** Nesting of arguments and answers that is followed. */
const maxDepth = 32

/** Returns the strings and numbers within a value, as texts. */
export function leavesOf(value: unknown, depth = 0): string[] {
  if (typeof value === 'string') return value.trim() === '' ? [] : [value]
  if (typeof value === 'number' || typeof value === 'bigint') return [String(value)]
  if (typeof value !== 'object' || value === null || depth >= maxDepth) return []
  return Object.values(value).flatMap((inner) => leavesOf(inner, depth + 1))
}

/**
 * Returns the whole values of an answer, normalized: of JSON, of lists and dictionaries as YAML and Python print them, and
 * the lines of any other text. A part of a value is none: a name may contain what its author wants to be trusted.
 */
export function wholeValues(answer: unknown): Set<string> {
  const values = typeof answer === 'string' ? valuesOfText(answer) : leavesOf(answer)
  return new Set(values.slice(0, maxValues).map(normalized))
}

function valuesOfText(text: string): string[] {
  if (text.length > maxText) return []
  const trimmed = text.trim()
  if (/^[[{"]/.test(trimmed)) {
    try {
      return leavesOf(JSON.parse(trimmed))
    } catch {
      return quotedValues(trimmed)
    }
  }
  return valuesOfLines(trimmed)
}

/** Values as Python prints them: `{'name': 'Le Marais', 'price': 30.0}`. */
function quotedValues(text: string): string[] {
  const values: string[] = []
  for (let at = 0; at < text.length; at++) {
    const sign = text[at]!
    if (sign === "'" || sign === '"') {
      let value = ''
      for (at += 1; at < text.length && text[at] !== sign; at++) {
        if (text[at] === '\\') at += 1
        value += text[at] ?? ''
      }
      // What is not closed was cut: the rest of the text is no value.
      if (at < text.length) values.push(value)
    } else if (!/[\s,:[\]{}()]/.test(sign)) {
      const start = at
      while (at + 1 < text.length && !/[\s,:'"[\]{}()]/.test(text[at + 1]!)) at += 1
      values.push(text.slice(start, at + 1))
    }
  }
  return values
}

const indentOf = (line: string): number => line.length - line.trimStart().length

/**
 * Values line by line: `- item`, `key: value` or a whole line. What continues a value, in quotes, indented or in a block,
 * belongs to it and is no value.
 */
function valuesOfLines(text: string): string[] {
  const lines = text.split(/\r\n|\n|\r/)
  const values: string[] = []
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]!
    if (line.trim() === '') continue
    const [, dashes, key, rest] = /^((?:\s*-\s)*)\s*(?:([^\s:][^:]{0,60}?):(?:\s+|$))?(.*)$/su.exec(line)!
    const indent = key === undefined ? indentOf(line) : dashes!.length || indentOf(line)
    let value = rest!.trim()
    const quote = /^['"]/.exec(value)?.[0]
    if (quote !== undefined) {
      let last = value.slice(1)
      while (!isClosing(last, quote) && at + 1 < lines.length) {
        last = lines[++at]!.trim()
        value += `\n${last}`
      }
      if (isClosing(last, quote)) value = value.slice(1, -1)
    } else if (key !== undefined || dashes !== '') {
      const isBlock = /^[|>][+-]?\d?/.test(value)
      while (at + 1 < lines.length && continues(lines[at + 1]!, indent, isBlock, value)) {
        value += `\n${lines[++at]!.trim()}`
      }
    }
    if (value !== '') values.push(value)
    // `Hotels in Paris: Ritz` may be a heading with the first value, or a line.
    if (key !== undefined && quote === undefined && !value.includes('\n')) values.push(line.trim())
  }
  return values
}

/** Whether the quotes at the end of a line end the text: a quote within it is doubled, or escaped. */
function isClosing(line: string, quote: string): boolean {
  if (quote === "'") return (line.length - withoutEnd(line, quote).length) % 2 === 1
  const inner = line.slice(0, -1)
  return line.endsWith(quote) && (inner.length - withoutEnd(inner, '\\').length) % 2 === 0
}

/** Whether a line continues the plain or block value of the line before it, which has this indentation. */
function continues(line: string, indent: number, isBlock: boolean, value: string): boolean {
  if (line.trim() === '') return true
  if (indentOf(line) <= indent) return false
  return isBlock || (value !== '' && !/^\s*-\s/.test(line) && !/^\s*[^\s:][^:]*:(?:\s|$)/.test(line))
}
