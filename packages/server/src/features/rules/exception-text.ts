import { createRequire } from 'node:module'
import type { ExceptionBody, RuleDocument } from '@wardline/contract'
import { escapeWildcards, quoteYaml } from '@wardline/text'
import type { Document, Pair, Scalar, YAMLMap, YAMLSeq } from 'yaml'
import { AppError } from '../../errors.ts'
import { namesIn, parseCondition } from './language/condition.ts'
import { shown } from './language/fault.ts'

// Loaded with the first exception, as the parser of rules is with the first rule.
const load = createRequire(import.meta.url)

/** Text to put in place of what is between two positions. */
interface Edit {
  from: number
  to: number
  text: string
}

const applied = (text: string, edits: readonly Edit[]): string =>
  [...edits]
    .sort((one, other) => other.from - one.from)
    .reduce((result, edit) => result.slice(0, edit.from) + edit.text + result.slice(edit.to), text)

const refuse = (sentence: string) => new AppError('invalid', sentence)

/** A value on one line that is both YAML and JSON, so that no text leaves its place. */
function flow(value: unknown): string {
  if (typeof value === 'string') return quoteYaml(value)
  if (Array.isArray(value)) return `[${value.map(flow).join(', ')}]`
  return `{ ${Object.entries(value as object)
    .map(([name, each]) => `${quoteYaml(name)}: ${flow(each)}`)
    .join(', ')} }`
}

const startOf = (node: unknown): number => (node as Scalar).range![0]

const pairOf = (map: YAMLMap, name: string): Pair<Scalar, unknown> | undefined =>
  (map.items as Pair<Scalar, unknown>[]).find(({ key }) => String(key.value) === name)

/** Inserts a field before another one of the map, on a line alone. */
function insertBefore(text: string, map: YAMLMap, at: Pair<Scalar, unknown>, name: string, value: string): Edit {
  const from = startOf(at.key)
  const column = from - (text.lastIndexOf('\n', from - 1) + 1)
  const line = text.slice(from - column, from)
  const isAlone = line.trim() === ''
  const separator = map.flow ? `,${isAlone ? `\n${line}` : ' '}` : `\n${' '.repeat(column)}`
  return { from, to: from, text: `${map.flow ? JSON.stringify(name) : name}: ${value}${separator}` }
}

/** Adds an entry to the exceptions, as the last one. */
function withAgents(text: string, root: YAMLMap, exception: object): Edit {
  const entry = flow(exception)
  const present = pairOf(root, 'exceptions')
  if (!present) {
    const list = root.flow ? `[${entry}]` : `\n  - ${entry}`
    const next = pairOf(root, 'tests') ?? pairOf(root, 'response')
    if (next) {
      const edit = insertBefore(text, root, next, 'exceptions', list)
      return root.flow ? edit : { ...edit, text: edit.text.replace('exceptions: \n', 'exceptions:\n') }
    }
    if (root.flow) return insertBefore(text, root, root.items[0] as Pair<Scalar, unknown>, 'exceptions', list)
    const end = text.trimEnd().length
    return { from: end, to: text.length, text: `\nexceptions:${list}\n` }
  }
  const list = present.value as YAMLSeq | Scalar | null
  const items = list !== null && 'items' in list ? (list.items as Scalar[]) : []
  if (items.length === 0) {
    const [from, to] = list?.range ?? [0, 0]
    return { from, to, text: `[${entry}]` }
  }
  const last = items.at(-1)!
  const end = last.range![1]
  if ((list as YAMLSeq).flow) return { from: end, to: end, text: `, ${entry}` }
  const before = text.slice(0, startOf(last))
  const dash = before.lastIndexOf('-')
  const column = dash - (text.lastIndexOf('\n', dash) + 1)
  const to = text.slice(0, end).trimEnd().length
  return { from: to, to, text: `\n${' '.repeat(column)}- ${entry}` }
}

/** Values compared as they are: `*` and `?` are wildcards in rules. */

/** Scalars of the conditions of a rule: that of its detection, or those of its correlation. */
function conditionNodes(root: YAMLMap): Scalar[] {
  const ofRules = (correlation: unknown): Scalar[] => {
    const rules = pairOf(correlation as YAMLMap, 'rules')?.value as YAMLSeq | undefined
    return (rules?.items ?? []).flatMap((item) =>
      typeof (item as Scalar).value === 'string'
        ? [item as Scalar]
        : ofRules(pairOf(item as YAMLMap, 'correlation')!.value),
    )
  }
  const correlation = pairOf(root, 'correlation')?.value
  const steps = correlation ? ofRules(correlation) : []
  if (steps.length > 0) return steps
  return [pairOf(pairOf(root, 'detection')!.value as YAMLMap, 'condition')!.value as Scalar]
}

/** Whether every event that the selection matches has this value. */
function isShared({ detection }: RuleDocument, selection: string, [field, value]: [string, string]): boolean {
  const tests = detection[selection] as Record<string, unknown> | undefined
  return !Array.isArray(tests) && String(tests?.[field]) === value
}

/** Adds a selection of the fields, and `and not` it to the conditions that name the selection. */
function withFilter(text: string, root: YAMLMap, { selection, fields }: NonNullable<ExceptionBody['filter']>): Edit[] {
  const detection = pairOf(root, 'detection')!.value as YAMLMap
  const names = (detection.items as Pair<Scalar>[]).map(({ key }) => String(key.value)).filter((n) => n !== 'condition')
  let number = 1
  while (names.includes(`_filter_${number}`)) number += 1
  const name = `_filter_${number}`
  const values = Object.fromEntries(Object.entries(fields).map(([field, value]) => [field, escapeWildcards(value)]))
  const edits = conditionNodes(root).flatMap((node): Edit[] => {
    const given = String(node.value)
    const [before, after] = [parseCondition(given, names), parseCondition(given, [...names, name])]
    if (!('condition' in before) || !namesIn(before.condition).includes(selection)) return []
    if (JSON.stringify(before) !== JSON.stringify(after)) {
      throw refuse(`The condition ${shown(given)} names all selections by a pattern: write the exception in the text.`)
    }
    const condition = `${before.condition.kind === 'or' ? `(${given.trim()})` : given.trim()} and not ${name}`
    const [from, to] = node.range!
    const isBlock = node.type?.startsWith('BLOCK') ?? false
    const isPlain = node.type === 'PLAIN' || isBlock
    return [
      {
        from,
        to,
        text: `${isPlain ? condition.replaceAll(/\s+/g, ' ') : JSON.stringify(condition)}${isBlock ? '\n' : ''}`,
      },
    ]
  })
  if (edits.length === 0) throw refuse(`No condition of the rule names the selection ${shown(selection)}.`)
  const place = pairOf(detection, 'condition') ?? (detection.items[0] as Pair<Scalar, unknown>)
  return [insertBefore(text, detection, place, name, flow(values)), ...edits]
}

/**
 * Returns the text of a valid rule with an exception. All else stays as it was written, with its comments. Throws AppError
 * `invalid` where the exception cannot be written.
 */
export function withException(text: string, document: RuleDocument, { exception, filter }: ExceptionBody): string {
  if ((exception === undefined) === (filter === undefined)) throw refuse('Give either exception or filter.')
  if (exception && document.exceptions?.some((each) => JSON.stringify(each) === JSON.stringify(exception))) {
    throw refuse('The rule has this exception already.')
  }
  const { parseAllDocuments } = load('yaml') as typeof import('yaml')
  const parsed = (parseAllDocuments(text, { version: '1.2', schema: 'core' }) as Document.Parsed[]).find(
    ({ contents }) => contents !== null && 'items' in contents,
  )
  const root = parsed!.contents as unknown as YAMLMap
  if (filter) {
    const fields = Object.entries(filter.fields).filter(([field]) => field !== 'instance_id')
    if (fields.every((field) => isShared(document, filter.selection, field)))
      throw refuse(
        `Every event that ${shown(filter.selection)} matches has ${fields.map((pair) => pair.join(': ')).join(' and ')}: except the agent, with a reason and an end, or switch the rule off.`,
      )
  }
  return applied(text, exception ? [withAgents(text, root, exception)] : withFilter(text, root, filter!))
}
