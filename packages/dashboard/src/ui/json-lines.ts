import type { Span } from './hostile-text.tsx'

export interface JsonLine {
  text: string
  marks: Span[]
}

/**
 * The lines of a value as JSON. `marksOf` returns the parts to mark of a text or number, by the names on the way to it; lists
 * have none.
 */
export function jsonLines(value: unknown, marksOf: (path: readonly string[], text: string) => Span[]): JsonLine[] {
  const lines: JsonLine[] = []
  function write(given: unknown, path: readonly string[], before: string, after: string, indent: string) {
    const isList = Array.isArray(given)
    const children = typeof given === 'object' && given !== null ? Object.entries(given) : []
    if (children.length === 0) {
      const spans = typeof given === 'object' ? [] : marksOf(path, String(given))
      const at = (place: number) =>
        before.length + (typeof given === 'string' ? JSON.stringify(given.slice(0, place)).length - 1 : place)
      const marks = spans.map(({ start, end }) => ({ start: at(start), end: at(end) }))
      lines.push({ text: `${before}${JSON.stringify(given)}${after}`, marks })
      return
    }
    lines.push({ text: `${before}${isList ? '[' : '{'}`, marks: [] })
    for (const [index, [name, child]] of children.entries()) {
      const inner = `${indent}  `
      const label = isList ? inner : `${inner}${JSON.stringify(name)}: `
      write(child, isList ? path : [...path, name], label, index < children.length - 1 ? ',' : '', inner)
    }
    lines.push({ text: `${indent}${isList ? ']' : '}'}${after}`, marks: [] })
  }
  write(value, [], '', '', '')
  return lines
}
