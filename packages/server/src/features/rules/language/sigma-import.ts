import type { RuleCorrelation, RuleDocument, Severity } from '@wardline/contract'
import { printCondition, renamed, selectionNameFault } from './condition.ts'
import { shown } from './fault.ts'
import { noLists, type RuleLists } from './placeholders.ts'
import { parseRules } from './rule.ts'
import { ruleText } from './rule-yaml.ts'
import {
  asList,
  type Base,
  type Correlated,
  customFields,
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
  /** Converted rules, as YAML. */
  rules: { title: string; text: string }[]
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
  const { type, rules, timespan, aliases = {}, condition: { field, ...condition } = {} } = given
  const groupBy = given['group-by'] ?? []
  const fields = asList(field).map((name) => mapField(String(name)))
  const steps = rules.map((name) => {
    const found = named.get(name)!
    return isBase(found)
      ? merged.conditions.get(found)!
      : { correlation: buildCorrelation(found, named, merged, false) }
  })
  const isAlias = (name: string) => Object.hasOwn(aliases, name)
  // The name of a rule becomes its condition.
  const ruleOf = (name: string): string => {
    const found = named.get(name)
    return found && isBase(found) ? (merged.conditions.get(found) ?? name) : name
  }
  const fieldsOf = (alias: Record<string, string>) =>
    Object.fromEntries(Object.entries(alias).map(([name, each]) => [ruleOf(name), mapField(each)]))
  // A single rule becomes the condition of the detection.
  const isPlain =
    isOuter &&
    Object.keys(aliases).length === 0 &&
    merged.conditions.size === 1 &&
    steps.length === 1 &&
    typeof steps[0] === 'string'
  return {
    type,
    ...(isPlain ? {} : { rules: steps }),
    ...(groupBy.length > 0 && { 'group-by': groupBy.map((name) => (isAlias(name) ? name : mapField(name))) }),
    ...(Object.keys(aliases).length > 0 && {
      aliases: Object.fromEntries(Object.entries(aliases).map(([name, alias]) => [name, fieldsOf(alias)])),
    }),
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
  const custom = customFields(value)
  if (custom.length > 0) notes.push(`${title}: ${custom.map(shown).join(', ')}: left out, as no part of Sigma.`)
  const names = [
    ...new Set(
      Object.values((value.detection as Fields) ?? {})
        .flat()
        .flatMap((map) => (isMap(map) ? Object.keys(map) : []))
        .map((key) => key.split('|')[0]!)
        .filter((name) => name !== ''),
    ),
  ]
  const mapped = names.filter((name) => mapField(name) !== name)
  if (mapped.length > 0)
    notes.push(`${title}: ${mapped.map((name) => `${name} is read as ${mapField(name)}`).join(', ')}.`)
  const own = names.filter((name) => mapField(name) === name && !name.startsWith('metadata.'))
  if (own.length > 0 && logsource !== undefined && !isOurs) {
    notes.push(`${title}: ${own.join(', ')} ${own.length === 1 ? 'is a field' : 'are fields'} of Wardline's events.`)
  }
}

/** Reads all documents that can be read; adds faults for the others. */
function readAll(files: readonly SigmaFile[], faults: FileFault[], lists: RuleLists) {
  const all: (Base | Correlated)[] = []
  const filters: Base[] = []
  const named: Named = new Map()
  for (const source of files.flatMap((file) => sourcesOf(file, faults))) {
    const { value } = source
    if (value.action !== undefined) {
      source.faults.add(['action'], 'Collections by action are not supported: write whole rules.')
      continue
    }
    const before = faults.length
    const isFilter = value.filter !== undefined
    const found =
      value.correlation === undefined
        ? readBase(source, isFilter ? 'filter' : 'detection', lists)
        : readCorrelation(source)
    if (!found || faults.length > before) continue
    if (isFilter) {
      filters.push(found as Base)
      continue
    }
    all.push(found)
    for (const key of [value.name, value.id]) {
      if (typeof key !== 'string') continue
      if (named.has(key)) source.faults.add([key === value.name ? 'name' : 'id'], `${shown(key)} names two rules.`)
      named.set(key, found)
    }
  }
  return { all, filters, named }
}

/** Adds the condition of a filter to the rules that it names. */
function applyFilter({ source, selections, condition }: Base, named: Named, index: number, notes: string[]): void {
  const { value, faults } = source
  const title = text(value.title) ?? source.file
  for (const [at, name] of asList((value.filter as Fields).rules).entries()) {
    const rule = named.get(String(name))
    if (rule === undefined || !isBase(rule)) {
      faults.add(['filter', 'rules', at], `The rule ${shown(name)} is in none of the files.`)
      continue
    }
    const rename = (each: string): string => `filter_${index + 1}_${each}`
    for (const [each, selection] of Object.entries(selections)) rule.selections[rename(each)] = selection
    rule.condition = { kind: 'and', operands: [rule.condition, renamed(condition, rename)] }
    notes.push(`${text(rule.source.value.title) ?? rule.source.file}: the filter ${title} is part of it.`)
  }
}

/**
 * Converts Sigma rules, filters and correlations, which may name rules of other files, to Wardline rules. Rules that a
 * correlation names become part of it. What cannot be converted leaves out its document only.
 */
export function importSigma(files: readonly SigmaFile[], lists = noLists): Imported {
  const faults: FileFault[] = []
  const notes: string[] = []
  const { all, filters, named } = readAll(files, faults, lists)
  for (const [index, filter] of filters.entries()) applyFilter(filter, named, index, notes)
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
  // Checks the limits of each rule as a whole.
  const rules = documents.flatMap((document) => {
    const written = ruleText(document)
    const left = parseRules(written, 1, lists).faults
    faults.push(...left.map((fault) => ({ ...fault, file: `${document.title}, as imported` })))
    return left.length === 0 ? [{ title: document.title, text: written }] : []
  })
  return { rules, notes, faults }
}
