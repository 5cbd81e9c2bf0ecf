import { createRequire } from 'node:module'
import { ruleLimits } from '@wardline/contract'
import type { Document, Node } from 'yaml'
import { type Path, type RuleFault, shown } from './fault.ts'

// Loaded with the first rule, so that a service without rules starts faster and uses less memory.
const load = createRequire(import.meta.url)
const yaml = () => load('yaml') as typeof import('yaml')

/** A document of a text, as plain values. */
export interface SourceDocument {
  value: unknown
  /** Returns the position of the value at the path, or of its field name if there is one. */
  fault(path: Path, sentence: string, offset?: number): RuleFault
  /** Returns the text with other ones in the place of values, each with as many lines as it had. */
  replaced(values: readonly { path: Path; by: string }[]): string
}

interface ReadText {
  documents: SourceDocument[]
  faults: RuleFault[]
}

interface Place {
  start: number
  /** Where the value is, without the name of its field. */
  range: readonly [start: number, end: number]
  /** Returns the start of a scalar written literally; undefined for one with escapes or folds. */
  text: number | undefined
  children?: Map<string | number, Place>
}

/** Types of the core schema. Other tags have no meaning here. */
const coreTags = /^tag:yaml\.org,2002:(str|int|float|bool|null|map|seq)$/

/**
 * Counts the tokens of the text before it is parsed, because the parser recurses into nested values and takes seconds for
 * 64 KiB of brackets.
 */
function findExcess(text: string): { offset: number; sentence: string } | undefined {
  const { Lexer } = yaml()
  let offset = 0
  let tokens = 0
  let brackets = 0
  let indicators = 0
  let documents = 0
  for (const token of new Lexer().lex(text)) {
    tokens += 1
    if (token === '[' || token === '{') brackets += 1
    if (token === ']' || token === '}') brackets -= 1
    // `- - - a` is three nested lists.
    if (brackets === 0 && (token === '-' || token === '?' || token === ':')) indicators += 1
    if (token.startsWith('\n') || token.startsWith('\r')) indicators = 0
    if (token === '---') documents += 1
    // Empty ones are not counted below, and the parser takes longest for them.
    if (documents > ruleLimits.documents) {
      return { offset, sentence: `The text has more than ${ruleLimits.documents} documents.` }
    }
    if (tokens > ruleLimits.tokens) {
      return { offset, sentence: `The text has more than ${ruleLimits.tokens} names, values and signs.` }
    }
    if (brackets > ruleLimits.depth || indicators > ruleLimits.depth) {
      return { offset, sentence: `Lists and maps are nested more than ${ruleLimits.depth} levels deep.` }
    }
    // The lexer marks documents, scalars and errors by control characters, which the text does not contain.
    if (!/^[\u0002\u0018\u001f\ufeff]$/.test(token)) offset += token.length
  }
  return undefined
}

/** Converts a composed document to plain values with positions. Throws RuleFault. */
function readValue(document: Document.Parsed, fault: (start: number, sentence: string) => RuleFault) {
  const { isAlias, isMap, isScalar, isSeq } = yaml()
  const startOf = (node: Node | null): number => node?.range?.[0] ?? 0
  const read = (node: Node | null, depth: number): { value: unknown; place: Place } => {
    const start = startOf(node)
    const place: Place = { start, range: [start, node?.range?.[1] ?? start], text: undefined }
    if (node === null) return { value: null, place }
    const refuse = (sentence: string) => fault(start, sentence)
    if (depth > ruleLimits.depth) throw refuse(`Lists and maps are nested more than ${ruleLimits.depth} levels deep.`)
    if (isAlias(node)) throw refuse(`Aliases (*${shown(node.source)}) are not supported: write the value again.`)
    const { tag } = node as { tag?: string }
    if (tag !== undefined && !coreTags.test(tag)) throw refuse(`The tag ${shown(tag)} is not supported.`)
    if (isScalar(node)) {
      const { value, source = '', type } = node
      const isLiteral = type === 'PLAIN' || (type?.startsWith('QUOTE_') && !/["'\\\n]/.test(source))
      if (isLiteral) place.text = start + (type === 'PLAIN' ? 0 : 1)
      const isOdd = typeof value === 'number' && (!Number.isFinite(value) || Math.abs(value) > Number.MAX_SAFE_INTEGER)
      if (isOdd) throw refuse(`${shown(source)} is a number that cannot be compared exactly; put it in quotes.`)
      // Digits after a zero are an id, not a number: as one they would lose their zeros.
      const isId = type === 'PLAIN' && typeof value === 'number' && /^[-+]?0[0-9]+$/.test(source)
      return { value: isId ? source : value, place }
    }
    const children = new Map<string | number, Place>()
    place.children = children
    if (isSeq(node)) {
      const list = node.items.map((item, index) => {
        const child = read(item as Node | null, depth + 1)
        children.set(index, child.place)
        return child.value
      })
      return { value: list, place }
    }
    if (!isMap(node)) throw refuse('This is neither a value, a list nor a map.')
    // Without a prototype, so that `__proto__` is an ordinary name.
    const map: Record<string, unknown> = Object.create(null)
    for (const { key, value } of node.items) {
      const name = isScalar(key) ? (key.source ?? String(key.value)) : undefined
      const at = startOf(key as Node | null)
      if (name === undefined) throw fault(at, 'The name of a field must be text.')
      if (children.has(name)) throw fault(at, `${shown(name)} is given twice.`)
      const child = read(value as Node | null, depth + 1)
      children.set(name, { ...child.place, start: at, text: child.place.text })
      map[name] = child.value
    }
    return { value: map, place }
  }
  return read(document.contents as Node | null, 0)
}

/** Shortens messages of the parser, which contain a position and a snippet of the text. */
const plain = (message: string): string => `This is not valid YAML: ${message.split('\n')[0]!.replace(/[.:]?$/, '.')}`

/** Parses YAML or JSON. The cost of parsing is limited before it starts, see ruleLimits. `noun`: what the text should have. */
export function readText(text: string, noun: 'rule' | 'policy' | 'labels' = 'rule'): ReadText {
  const bytes = Buffer.byteLength(text)
  if (bytes > ruleLimits.textBytes) {
    const sentence = `The text has ${bytes} bytes; at most ${ruleLimits.textBytes} are read.`
    return { documents: [], faults: [{ line: 1, column: 1, sentence }] }
  }
  const { isScalar, LineCounter, parseAllDocuments } = yaml()
  const lines = new LineCounter()
  const at = (offset: number, sentence: string): RuleFault => {
    const { line, col } = lines.linePos(offset)
    return { line: Math.max(1, line), column: Math.max(1, col), sentence }
  }
  const excess = findExcess(text)
  if (excess !== undefined) {
    const before = text.slice(0, excess.offset)
    const line = before.split('\n').length
    const column = excess.offset - before.lastIndexOf('\n')
    return { documents: [], faults: [{ line, column, sentence: excess.sentence }] }
  }
  const parsed = parseAllDocuments(text, {
    version: '1.2',
    schema: 'core',
    // No merge keys, and no types such as !!binary.
    merge: false,
    resolveKnownTags: false,
    // The parser compares keys in pairs; readValue uses a hash.
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: 'silent',
    lineCounter: lines,
  }) as Document.Parsed[]
  const faults: RuleFault[] = []
  const documents: SourceDocument[] = []
  for (const document of parsed) {
    const [error] = document.errors
    if (documents.length + faults.length >= ruleLimits.documents) {
      faults.push(at(document.range[0], `The text has more than ${ruleLimits.documents} documents.`))
      break
    }
    if (error) {
      faults.push(at(error.pos[0], plain(error.message)))
      continue
    }
    // The text after the last `---`.
    if (document.contents === null || (isScalar(document.contents) && document.contents.value === null)) continue
    try {
      const { value, place } = readValue(document, at)
      const placeOf = (path: Path): Place => {
        let found = place
        for (const step of path) {
          const child = found.children?.get(step)
          if (!child) break
          found = child
        }
        return found
      }
      documents.push({
        value,
        fault(path, sentence, offset) {
          const found = placeOf(path)
          return at(offset !== undefined && found.text !== undefined ? found.text + offset : found.start, sentence)
        },
        replaced(values) {
          let rest = 0
          const parts = values.map(({ path, by }) => {
            const [start, end] = placeOf(path).range
            const before = text.slice(rest, start)
            rest = end
            return `${before}${by}${text.slice(start, end).replace(/[^\n]/g, '')}`
          })
          return parts.join('') + text.slice(rest)
        },
      })
    } catch (fault) {
      if (fault instanceof Error) throw fault
      faults.push(fault as RuleFault)
    }
  }
  if (documents.length === 0 && faults.length === 0) {
    faults.push({ line: 1, column: 1, sentence: `The text has no ${noun}.` })
  }
  return { documents, faults }
}
