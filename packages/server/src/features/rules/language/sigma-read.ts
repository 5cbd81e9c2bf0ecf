import { correlationTypes } from '@wardline/contract'
import { type Condition, namesIn, parseCondition, selectionNameFault } from './condition.ts'
import { readText, type SourceDocument } from './document.ts'
import { type Faults, type RuleFault, shown } from './fault.ts'
import { isOwnField } from './fields.ts'
import { Budget, compileSelection } from './selection.ts'

export interface SigmaFile {
  name: string
  text: string
}

/** A fault with its file. */
export interface FileFault extends RuleFault {
  file: string
}

export type Fields = Record<string, unknown>

/** A parsed Sigma document. */
export interface Source {
  file: string
  document: SourceDocument
  value: Fields
  faults: Faults
}

export interface Base {
  source: Source
  selections: Fields
  condition: Condition
}

export interface Correlated {
  source: Source
  given: SigmaCorrelation
}

interface SigmaCorrelation {
  type: (typeof correlationTypes)[number]
  rules: string[]
  'group-by'?: string[]
  timespan: string
  condition?: Record<string, unknown>
}

/** Fields that describe a rule without changing what it matches. */
const descriptive = [
  'title',
  'id',
  'name',
  'status',
  'description',
  'license',
  'author',
  'references',
  'reference',
  'date',
  'modified',
  'fields',
  'falsepositives',
  'level',
  'tags',
  'related',
  'scope',
  'taxonomy',
  'generate',
]

export const isMap = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
export const asList = (value: unknown): unknown[] =>
  value === undefined || value === null ? [] : Array.isArray(value) ? value : [value]

/** Maps a Sigma field to a field of events; fields that Wardline does not know are in the metadata. */
export const mapField = (name: string): string =>
  isOwnField(name) || name.startsWith('metadata.') ? name : `metadata.${name}`

function mapKey(key: string): string {
  const [name = '', ...modifiers] = key.split('|')
  return [name === '' ? '' : mapField(name), ...modifiers].join('|')
}

function mapSelection(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(mapSelection)
  return isMap(value) ? Object.fromEntries(Object.entries(value).map(([key, values]) => [mapKey(key), values])) : value
}

/** Reports faults in mapped names at the original names in the file. */
function unmapped(source: Source, name: string): Faults {
  const selection = (source.value.detection as Fields)[name]
  const keys = [selection].flat().flatMap((map) => (isMap(map) ? Object.keys(map) : []))
  return {
    add(path, sentence) {
      const original = path.map((part) => keys.find((key) => mapKey(key) === part) ?? part)
      source.faults.add(original, sentence)
    },
  }
}

export function readBase(source: Source): Base | undefined {
  const { value, faults } = source
  const { detection } = value
  for (const key of Object.keys(value)) {
    if (![...descriptive, 'logsource', 'detection'].includes(key))
      faults.add([key], `The field ${shown(key)} is not supported.`)
  }
  if (!isMap(detection)) return void faults.add(['detection'], 'The detection is a map of selections and a condition.')
  const { condition, timeframe, ...selections } = detection
  if (timeframe !== undefined)
    faults.add(
      ['detection', 'timeframe'],
      'timeframe is not supported: it belongs to aggregations in conditions, which correlations replaced.',
    )
  const budget = new Budget()
  const names = Object.keys(selections)
  for (const name of names) {
    const nameFault = selectionNameFault(name)
    if (nameFault) faults.add(['detection', name], nameFault)
    compileSelection(mapSelection(selections[name]), ['detection', name], unmapped(source, name), budget)
  }
  const conditions = asList(condition)
  if (conditions.length === 0) faults.add(['detection'], 'The detection has no condition.')
  const parsed = conditions.map((each, index) => {
    const path = Array.isArray(condition) ? ['detection', 'condition', index] : ['detection', 'condition']
    const result =
      typeof each === 'string' ? parseCondition(each, names) : { offset: 0, sentence: 'A condition is text.' }
    if ('condition' in result) return result.condition
    faults.add(path, result.sentence, result.offset)
    return undefined
  })
  if (parsed.length === 0 || parsed.includes(undefined)) return undefined
  const [only] = parsed
  const all: Condition = parsed.length === 1 ? only! : { kind: 'or', operands: parsed as Condition[] }
  const used = new Set(namesIn(all))
  const mapped = Object.fromEntries(
    names.filter((name) => used.has(name)).map((name) => [name, mapSelection(selections[name])]),
  )
  return { source, selections: mapped, condition: all }
}

const correlationFields = ['type', 'rules', 'group-by', 'timespan', 'condition']

export function readCorrelation(source: Source): Correlated | undefined {
  const { value, faults } = source
  for (const key of Object.keys(value)) {
    if (![...descriptive, 'correlation'].includes(key))
      faults.add([key], `The field ${shown(key)} is not supported beside a correlation.`)
  }
  const { correlation } = value
  if (!isMap(correlation)) return void faults.add(['correlation'], 'The correlation is a map.')
  for (const key of Object.keys(correlation)) {
    if (!correlationFields.includes(key))
      faults.add(['correlation', key], `${shown(key)} is not supported in a correlation.`)
  }
  const { type, rules, timespan } = correlation
  const groupBy = asList(correlation['group-by'])
  const supported: readonly unknown[] = correlationTypes.filter((each) => each !== 'new_value')
  if (!supported.includes(type)) {
    return void faults.add(
      ['correlation', 'type'],
      `Correlations of type ${shown(type)} are not supported; supported are ${supported.join(', ')}.`,
    )
  }
  const names = asList(rules)
  if (names.length === 0 || !names.every((name) => typeof name === 'string')) {
    return void faults.add(['correlation', 'rules'], 'rules is a list of names or ids of rules.')
  }
  if (!groupBy.every((name) => typeof name === 'string')) {
    return void faults.add(['correlation', 'group-by'], 'group-by is a list of fields.')
  }
  if (typeof timespan !== 'string' || !/^[1-9]\d{0,6}[smhd]$/.test(timespan)) {
    return void faults.add(
      ['correlation', 'timespan'],
      `timespan is a whole number followed by s, m, h or d, not ${shown(timespan)}.`,
    )
  }
  const { condition } = correlation
  if (condition !== undefined && !isMap(condition)) {
    return void faults.add(
      ['correlation', 'condition'],
      'Conditions of correlations are supported as a map such as gte: 10.',
    )
  }
  for (const key of Object.keys(condition ?? {})) {
    if (!['gt', 'gte', 'lt', 'lte', 'eq', 'field'].includes(key)) {
      faults.add(['correlation', 'condition', key], `${shown(key)} is not supported in the condition of a correlation.`)
    }
  }
  return {
    source,
    given: {
      type: type as SigmaCorrelation['type'],
      rules: names,
      'group-by': groupBy,
      timespan,
      ...(condition && { condition }),
    },
  }
}

/** Parses the documents of a file; adds faults for text that is no Sigma rule. */
export function sourcesOf({ name: file, text: content }: SigmaFile, faults: FileFault[]): Source[] {
  const read = readText(content)
  faults.push(...read.faults.map((fault) => ({ file, ...fault })))
  return read.documents.flatMap((document) => {
    const ownFaults: Faults = {
      add: (path, sentence, offset) => faults.push({ file, ...document.fault(path, sentence, offset) }),
    }
    if (isMap(document.value)) return [{ file, document, value: document.value, faults: ownFaults }]
    ownFaults.add([], 'A Sigma rule is a map.')
    return []
  })
}
