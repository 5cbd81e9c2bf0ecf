import { correlationTypes } from '@wardline/contract'
import { Budget } from './budget.ts'
import { type Condition, namesIn, parseCondition, renamed, selectionNameFault } from './condition.ts'
import { readText, type SourceDocument } from './document.ts'
import { type Faults, type RuleFault, shown } from './fault.ts'
import { isOwnField } from './fields.ts'
import type { RuleLists } from './placeholders.ts'
import { compileSelection } from './selection.ts'

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
  aliases?: Record<string, Record<string, string>>
  timespan: string
  condition?: Record<string, unknown>
}

/** Fields of the specification. A rule may have others, which change nothing. */
const specified = [
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
  'logsource',
  'detection',
  'correlation',
  'filter',
]

/** Returns the fields of a document that the specification does not know. */
export const customFields = (value: Fields): string[] => Object.keys(value).filter((key) => !specified.includes(key))

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
  if (!isMap(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, values]) => [mapKey(key), mapReference(key, values)]))
}

/** The value of `fieldref` is a field too. */
const mapReference = (key: string, value: unknown): unknown =>
  key.split('|').includes('fieldref') && typeof value === 'string' ? mapField(value) : value

/** Reports faults in mapped names at the original names in the file. */
function unmapped(source: Source, part: 'detection' | 'filter', name: string): Faults {
  const selection = (source.value[part] as Fields)[name]
  const keys = [selection].flat().flatMap((map) => (isMap(map) ? Object.keys(map) : []))
  return {
    add(path, sentence) {
      const original = path.map((part) => keys.find((key) => mapKey(key) === part) ?? part)
      source.faults.add(original, sentence)
    },
  }
}

/** Selections of Sigma may have any name. */
const nameOf = (name: string): string => name.replaceAll(/[^A-Za-z0-9_-]/g, '_')

/** Reads the selections and the condition of a rule or filter, which are in its field `part`. */
export function readBase(source: Source, part: 'detection' | 'filter', lists: RuleLists): Base | undefined {
  const { value, faults } = source
  const given = value[part]
  if (!isMap(given)) return void faults.add([part], `The ${part} is a map of selections and a condition.`)
  const { condition, timeframe, ...rest } = given
  const { rules: _, ...selections } = part === 'filter' ? rest : { ...rest, rules: undefined }
  if (timeframe !== undefined)
    faults.add(
      [part, 'timeframe'],
      'timeframe is not supported: it belongs to aggregations in conditions, which correlations replaced.',
    )
  const scope = { budget: new Budget(), timezone: 'UTC', lists }
  const names = Object.keys(selections).filter((name) => selections[name] !== undefined)
  for (const name of names) {
    const nameFault = selectionNameFault(nameOf(name))
    if (nameFault) faults.add([part, name], nameFault)
    compileSelection(mapSelection(selections[name]), [part, name], unmapped(source, part, name), scope)
  }
  const conditions = asList(condition)
  if (conditions.length === 0) faults.add([part], `The ${part} has no condition.`)
  const parsed = conditions.map((each, index) => {
    const path = Array.isArray(condition) ? [part, 'condition', index] : [part, 'condition']
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
    names.filter((name) => used.has(name)).map((name) => [nameOf(name), mapSelection(selections[name])]),
  )
  return { source, selections: mapped, condition: renamed(all, nameOf) }
}

const correlationFields = ['type', 'rules', 'group-by', 'aliases', 'timespan', 'condition']
/** Types that Sigma does not know. */
export const ownTypes: readonly string[] = ['new_value', 'not_preceded']

export function readCorrelation(source: Source): Correlated | undefined {
  const { value, faults } = source
  const { correlation } = value
  if (!isMap(correlation)) return void faults.add(['correlation'], 'The correlation is a map.')
  for (const key of Object.keys(correlation)) {
    if (!correlationFields.includes(key))
      faults.add(['correlation', key], `${shown(key)} is not supported in a correlation.`)
  }
  const { type, rules, timespan } = correlation
  const groupBy = asList(correlation['group-by'])
  const supported: readonly unknown[] = correlationTypes.filter((each) => !ownTypes.includes(each))
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
  const { condition, aliases } = correlation
  const areAliases =
    aliases === undefined ||
    (isMap(aliases) &&
      Object.values(aliases).every(
        (fields) => isMap(fields) && Object.values(fields).every((field) => typeof field === 'string'),
      ))
  if (!areAliases) {
    return void faults.add(['correlation', 'aliases'], 'aliases is a map of names, each a map of rules to fields.')
  }
  if (condition !== undefined && !isMap(condition)) {
    return void faults.add(
      ['correlation', 'condition'],
      'Conditions of correlations are supported as a map such as gte: 10.',
    )
  }
  for (const key of Object.keys(condition ?? {})) {
    if (!['gt', 'gte', 'lt', 'lte', 'eq', 'neq', 'field', 'percentile'].includes(key)) {
      faults.add(['correlation', 'condition', key], `${shown(key)} is not supported in the condition of a correlation.`)
    }
  }
  return {
    source,
    given: {
      type: type as SigmaCorrelation['type'],
      rules: names,
      'group-by': groupBy,
      ...(aliases !== undefined && { aliases: aliases as Record<string, Record<string, string>> }),
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
