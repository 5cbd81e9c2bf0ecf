import type { RuleCorrelation, RuleDocument, Severity } from '@wardline/contract'
import { stringify } from 'yaml'
import { printCondition, selectionNameFault } from './condition.ts'
import { shown } from './fault.ts'
import { parseRules } from './rule.ts'
import {
  asList,
  type Base,
  type Correlated,
  type Fields,
  type FileFault,
  isMap,
  mapField,
  readBase,
  readCorrelation,
  type SigmaFile,
  type Source,
  sourcesOf,
} from './sigma-read.ts'

interface Imported {
  /** YAML; empty if there are faults. */
  text: string
  /** Changes and omissions, one sentence each. */
  notes: string[]
  faults: FileFault[]
}

const severities: Record<string, Severity> = {
  informational: 'info',
  low: 'info',
  medium: 'warning',
  high: 'critical',
  // Severity breach is a statement about the agent, which an imported rule cannot make.
  critical: 'critical',
}

const text = (value: unknown): string | undefined =>
  typeof value === 'string' && value.trim() !== '' ? value : undefined

/** Rules and correlations by the name or id that correlations refer to. */
type Named = Map<string, Base | Correlated>

/** Selections of all rules that a correlation names, renamed to fit into one rule. */
interface Merged {
  selections: Fields
  /** Condition of each base rule, over the new names. */
  conditions: Map<Base, string>
}

const isBase = (found: Base | Correlated): found is Base => 'selections' in found

/** Returns the base rules that a correlation names, directly or not; adds a fault if one is missing or names itself. */
function basesOf(correlated: Correlated, named: Named, way: Correlated[] = []): Base[] {
  const { faults } = correlated.source
  return correlated.given.rules.flatMap((name, index) => {
    const found = named.get(name)
    const path = ['correlation', 'rules', index]
    if (found === undefined) faults.add(path, `The rule ${shown(name)} is in none of the files.`)
    else if (isBase(found)) return [found]
    else if (found === correlated || way.includes(found))
      faults.add(path, `The correlation ${shown(name)} refers to itself.`)
    else return basesOf(found, named, [...way, correlated])
    return []
  })
}

function merge(bases: readonly Base[]): Merged {
  const distinct = [...new Set(bases)]
  const selections: Fields = {}
  const conditions = new Map<Base, string>()
  for (const [index, base] of distinct.entries()) {
    const names = Object.keys(base.selections)
    const { name = `rule_${index + 1}` } = base.source.value as { name?: string }
    const own = String(name).replaceAll(/[^A-Za-z0-9_-]/g, '_')
    const prefix = selectionNameFault(own) === undefined ? own : `rule_${own}`
    const isWhole = base.condition.kind === 'selection'
    const renamed = new Map(
      names.map((each) => {
        let free = distinct.length === 1 ? each : isWhole ? prefix : `${prefix}_${each}`
        while (Object.hasOwn(selections, free)) free = `${free}_${index + 1}`
        selections[free] = base.selections[each]
        return [each, free]
      }),
    )
    conditions.set(
      base,
      printCondition(base.condition, (each) => renamed.get(each)!),
    )
  }
  return { selections, conditions }
}

function buildCorrelation({ given }: Correlated, named: Named, merged: Merged, isOuter: boolean): RuleCorrelation {
  const { type, rules, timespan, condition: { field, ...condition } = {} } = given
  const groupBy = given['group-by'] ?? []
  const fields = asList(field).map((name) => mapField(String(name)))
  const steps = rules.map((name) => {
    const found = named.get(name)!
    return isBase(found)
      ? merged.conditions.get(found)!
      : { correlation: buildCorrelation(found, named, merged, false) }
  })
  // A single rule becomes the condition of the detection.
  const isPlain = isOuter && merged.conditions.size === 1 && steps.length === 1 && typeof steps[0] === 'string'
  return {
    type,
    ...(isPlain ? {} : { rules: steps }),
    ...(groupBy.length > 0 && { 'group-by': groupBy.map(mapField) }),
    timespan,
    ...(Object.keys(condition).length > 0 && { condition: condition as Record<'gte', number> }),
    ...(fields.length > 0 && { field: fields.length === 1 ? fields[0]! : fields }),
  }
}

function describe(
  { value, file }: Source,
  notes: string[],
): Pick<RuleDocument, 'title' | 'id' | 'description' | 'mode' | 'severity'> {
  const title = text(value.title) ?? text(value.name) ?? file
  const description = text(value.description)
  const level = text(value.level) ?? 'medium'
  const isUuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(String(value.id))
  if (value.id !== undefined && !isUuid) notes.push(`${title}: the id ${shown(value.id)} is not a UUID: left out.`)
  return {
    title,
    ...(isUuid && { id: String(value.id) }),
    ...(description !== undefined && { description }),
    mode: 'observe',
    severity: severities[level] ?? 'warning',
  }
}

function noteMeaning(base: Base, notes: string[]): void {
  const { value } = base.source
  const title = text(value.title) ?? text(value.name) ?? base.source.file
  const { logsource } = value
  const isOurs = isMap(logsource) && logsource.product === 'wardline'
  if (logsource !== undefined && !isOurs) {
    notes.push(`${title}: logsource is not supported; the rule checks every event.`)
  }
  const mapped = [
    ...new Set(
      Object.values((value.detection as Fields) ?? {})
        .flat()
        .flatMap((map) => (isMap(map) ? Object.keys(map) : []))
        .map((key) => key.split('|')[0]!)
        .filter((name) => name !== '' && mapField(name) !== name),
    ),
  ]
  if (mapped.length > 0)
    notes.push(`${title}: ${mapped.map((name) => `${name} is read as ${mapField(name)}`).join(', ')}.`)
}

/**
 * Converts Sigma rules and correlations, which may name rules of other files, to Wardline rules. Rules that a
 * correlation names become part of it.
 */
export function importSigma(files: readonly SigmaFile[]): Imported {
  const faults: FileFault[] = []
  const notes: string[] = []
  const all: (Base | Correlated)[] = []
  const named: Named = new Map()
  for (const source of files.flatMap((file) => sourcesOf(file, faults))) {
    const { value } = source
    if (value.filter !== undefined) source.faults.add(['filter'], 'Sigma filters are not supported.')
    else if (value.action !== undefined)
      source.faults.add(['action'], 'Collections by action are not supported: write whole rules.')
    else {
      const found = value.correlation === undefined ? readBase(source) : readCorrelation(source)
      if (!found) continue
      all.push(found)
      for (const key of [value.name, value.id]) {
        if (typeof key !== 'string') continue
        if (named.has(key)) source.faults.add([key === value.name ? 'name' : 'id'], `${shown(key)} names two rules.`)
        named.set(key, found)
      }
    }
  }
  const correlations = all.filter((found): found is Correlated => !isBase(found))
  const partOf = new Set(
    correlations
      .filter(({ source }) => source.value.generate !== true)
      .flatMap(({ given }) => given.rules.map((name) => named.get(name))),
  )
  const documents: RuleDocument[] = []
  for (const found of all.filter((each) => !partOf.has(each))) {
    const head = describe(found.source, notes)
    if (isBase(found)) {
      noteMeaning(found, notes)
      const condition = printCondition(found.condition, (name) => name)
      documents.push({ ...head, detection: { ...found.selections, condition } })
      continue
    }
    const before = faults.length
    const bases = basesOf(found, named)
    if (faults.length > before) continue
    for (const base of new Set(bases)) noteMeaning(base, notes)
    const merged = merge(bases)
    const correlation = buildCorrelation(found, named, merged, true)
    const condition = correlation.rules === undefined ? { condition: [...merged.conditions.values()][0]! } : {}
    documents.push({ ...head, detection: { ...merged.selections, ...condition }, correlation })
  }
  // In a cycle each correlation is part of another one, so no document is left.
  if (documents.length === 0 && faults.length === 0) {
    for (const { source } of correlations)
      source.faults.add(['correlation', 'rules'], 'These correlations refer to each other.')
  }
  const texts = documents.map((document) => stringify(document, { lineWidth: 0, aliasDuplicateObjects: false }))
  // Checks the limits of each rule as a whole.
  if (faults.length === 0) {
    for (const [index, each] of texts.entries()) {
      const left = parseRules(each).faults
      faults.push(...left.map((fault) => ({ ...fault, file: `${documents[index]!.title}, as imported` })))
    }
  }
  return { text: faults.length === 0 ? texts.join('---\n') : '', notes, faults }
}
