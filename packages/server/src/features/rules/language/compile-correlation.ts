import { RuleCorrelation, ruleLimits } from '@wardline/contract'
import { lazyCheck, validationSentence } from '../../../validation.ts'
import type { Budget } from './budget.ts'
import { type Condition, namesIn, parseCondition } from './condition.ts'
import type { Correlation, FigureTest, Step } from './correlation.ts'
import { figureUnits, highestValuesCost } from './cost.ts'
import { durationMs } from './duration.ts'
import { type Faults, type Path, shown } from './fault.ts'
import { type Field, findField } from './fields.ts'
import type { FigureType } from './figures.ts'
import { groupReader, historyReader, valuesReader } from './group-keys.ts'
import type { Predicate } from './predicate.ts'
import { compileCondition, everyOf, type Selections } from './selection.ts'

/** Context shared by the correlations of a rule. */
export interface CorrelationParts {
  names: readonly string[]
  selections: Selections
  /** Condition of the detection; undefined if there is none. */
  predicate: Predicate | undefined
  used: Set<string>
  faults: Faults
  budget: Budget
  /** Number of correlations so far, which share the limits of the rule. */
  count: number
}

const checkInner = lazyCheck(RuleCorrelation)

const maxSpanMs = ruleLimits.timespanSeconds * 1_000

/** Parses a duration to milliseconds; adds a fault if it exceeds the retention of events. */
export function spanMs(text: string, path: Path, faults: Faults): number {
  const ms = durationMs(text)
  if (ms > maxSpanMs) faults.add(path, `${text} is too long: the maximum is ${ruleLimits.timespanSeconds / 86_400}d.`)
  return ms
}

function compileFields(names: readonly string[], path: Path, parts: CorrelationParts): Field[] {
  return names.flatMap((name, index) => {
    const field = findField(name)
    if (typeof field !== 'string') {
      parts.budget.read(field)
      return [field]
    }
    parts.faults.add([...path, index], field)
    return []
  })
}

/** Returns the fields of group-by for each of the rules; undefined if an alias is invalid. */
function compileAliases(
  { type, rules, 'group-by': groupBy = [], aliases = {} }: RuleCorrelation,
  path: Path,
  parts: CorrelationParts,
): Field[][] | undefined {
  const refuse = (at: Path, sentence: string) => void parts.faults.add([...path, ...at], sentence)
  if (!rules || type === 'new_value') {
    return refuse(['aliases'], 'aliases is for correlations with rules, and not for new_value.')
  }
  for (const [alias, fields] of Object.entries(aliases)) {
    if (!groupBy.includes(alias)) return refuse(['aliases', alias], `The alias ${shown(alias)} is not in group-by.`)
    const unknown = Object.keys(fields).find((rule) => !rules.includes(rule))
    if (unknown !== undefined) {
      return refuse(['aliases', alias, unknown], `${shown(unknown)} is none of the rules of this correlation.`)
    }
    const missing = rules.find((rule) => typeof rule !== 'string' || !Object.hasOwn(fields, rule))
    if (missing !== undefined) {
      const what = typeof missing === 'string' ? `the rule ${shown(missing)}` : 'a rule that is a correlation'
      return refuse(
        ['aliases', alias],
        `The alias ${shown(alias)} needs a field for each rule, and has none for ${what}.`,
      )
    }
  }
  const found = rules.map((rule) =>
    compileFields(
      groupBy.map((name) => (Object.hasOwn(aliases, name) ? aliases[name]![rule as string]! : name)),
      [...path, 'group-by'],
      parts,
    ),
  )
  return found.every(({ length }) => length === groupBy.length) ? found : undefined
}

const isFigure = (type: RuleCorrelation['type']): type is FigureType => /^value_(?:sum|avg|percentile)$/.test(type)

/** Compiles the test of the numbers of a field. */
function figureTest(type: FigureType, field: Field, condition: NonNullable<RuleCorrelation['condition']>): FigureTest {
  const { gt, gte, lt, lte, eq, neq, percentile = 0 } = condition
  return {
    type,
    share: percentile / 100,
    read(event) {
      const value = field.read(event)
      return typeof value === 'number' && Number.isFinite(value) ? value : undefined
    },
    isMet: (figure) =>
      (gt === undefined || figure > gt) &&
      (gte === undefined || figure >= gte) &&
      (lt === undefined || figure < lt) &&
      (lte === undefined || figure <= lte) &&
      (eq === undefined || figure === eq) &&
      figure !== neq,
  }
}

const anyCount = { min: 1, max: Number.POSITIVE_INFINITY, not: undefined, isLate: false }

/** Returns the counts that fire, or a sentence if the condition cannot be decided. */
function rangeOf(correlation: RuleCorrelation, depth: number): Pick<Correlation, keyof typeof anyCount> | string {
  const { type, condition = {}, rules = [] } = correlation
  const { gt, gte, lt, lte, eq, neq, percentile } = condition
  const given = [gt, gte, lt, lte, eq, neq].filter((limit) => limit !== undefined)
  if (percentile !== undefined && type !== 'value_percentile') return 'percentile is only for value_percentile.'
  if (isFigure(type)) {
    if (type === 'value_percentile' && percentile === undefined) {
      return 'A correlation of type value_percentile needs percentile in its condition, such as percentile: 95.'
    }
    // Each event of a window that meets the condition counts.
    return given.length > 0 ? anyCount : `A correlation of type ${type} needs a condition, such as gt: 1000.`
  }
  if (given.some((limit) => !Number.isInteger(limit) || limit < 0 || limit > ruleLimits.count)) {
    return `A count is compared with whole numbers from 0 to ${ruleLimits.count}.`
  }
  if (type === 'temporal_ordered' || type === 'new_value' || type === 'not_preceded') {
    if (given.length > 0) return `A correlation of type ${type} has no condition.`
    return type === 'temporal_ordered' ? { ...anyCount, min: rules.length } : anyCount
  }
  if (type === 'temporal' && given.length === 0) return { ...anyCount, min: rules.length }
  const min = Math.max(gt === undefined ? 0 : gt + 1, gte ?? 0, eq ?? 0)
  const max = Math.min(
    lt === undefined ? Number.POSITIVE_INFINITY : lt - 1,
    lte ?? Number.POSITIVE_INFINITY,
    eq ?? Number.POSITIVE_INFINITY,
  )
  if (max < 1 || min > max) return 'No count meets this condition: a window begins with an event.'
  const isLate = min === 0
  if (isLate && type !== 'event_count') {
    return 'The condition needs a lower bound of at least 1: gte, gt or eq. A count below something holds at the first event.'
  }
  if (isLate && max === Number.POSITIVE_INFINITY) {
    return 'The condition needs a bound: gte, gt, eq, lt or lte. With neq alone the count passes every other number on its way.'
  }
  if (isLate && depth > 1) {
    return 'The condition needs a lower bound of at least 1 within another correlation: one with lt alone is judged when its timespan has passed, which is only possible for the outermost one.'
  }
  if (type === 'temporal' && min > rules.length)
    return `The condition counts rules, of which there are ${rules.length}.`
  return { min, max, not: neq, isLate }
}

function compileStep(rule: unknown, path: Path, parts: CorrelationParts, depth: number): Step | undefined {
  const { names, selections, faults, used } = parts
  if (typeof rule === 'string') {
    if (rule.length > ruleLimits.condition) {
      return void faults.add(path, `A condition has at most ${ruleLimits.condition} characters.`)
    }
    const parsed = parseCondition(rule, names)
    if ('sentence' in parsed) return void faults.add(path, parsed.sentence, parsed.offset)
    const { condition } = parsed
    const named = namesIn(condition)
    parts.budget.name(named.length, path, faults)
    for (const name of named) used.add(name)
    const own = compileKnown(condition, selections)
    if (own === undefined) return undefined
    const { predicate } = parts
    if (predicate === undefined) return { predicate: own }
    return { predicate: everyOf([own, predicate]) }
  }
  const isOuter = typeof rule === 'object' && rule !== null && Object.keys(rule).join() === 'correlation'
  if (!isOuter) return void faults.add(path, 'A rule of a correlation is a condition, or a map with correlation alone.')
  const { correlation: inner } = rule as { correlation: RuleCorrelation }
  const innerPath = [...path, 'correlation']
  if (!checkInner(inner)) {
    const fault = checkInner.errors![0]!
    return void faults.add([...innerPath, ...pointer(fault.instancePath)], validationSentence(fault))
  }
  const correlation = compileCorrelation(inner, innerPath, parts, depth + 1)
  return correlation && { correlation }
}

/** Undefined if a selection could not be compiled, which was reported. */
function compileKnown(condition: Condition, selections: Selections): Predicate | undefined {
  return namesIn(condition).every((name) => selections.has(name)) ? compileCondition(condition, selections) : undefined
}

/** Splits a JSON pointer into its steps. */
export const pointer = (text: string): (string | number)[] =>
  text
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part))

export function compileCorrelation(
  given: RuleCorrelation,
  path: Path,
  parts: CorrelationParts,
  depth = 1,
): Correlation | undefined {
  const { faults } = parts
  const { type, rules, condition = {}, timespan } = given
  const refuse = (name: string, sentence: string) => void faults.add([...path, name], sentence)
  if (depth > ruleLimits.correlationDepth) {
    return void faults.add(path, `Correlations are nested at most ${ruleLimits.correlationDepth} levels deep.`)
  }
  const name = `${parts.count}:`
  parts.count += 1
  const range = rangeOf(given, depth)
  if (typeof range === 'string') return refuse(given.condition ? 'condition' : 'type', range)
  const isOfRules = type === 'temporal' || type === 'temporal_ordered' || type === 'not_preceded'
  if (isOfRules && (rules?.length ?? 0) < 2)
    return refuse('rules', `A correlation of type ${type} needs rules, at least two.`)
  if (type === 'not_preceded' && rules!.length > 2) {
    return refuse(
      'rules',
      'A correlation of type not_preceded has two rules: what happened, and what has to come before.',
    )
  }
  const needsField = type === 'value_count' || type === 'new_value' || isFigure(type)
  const inCondition = condition.field !== undefined
  if (inCondition && given.field !== undefined)
    return refuse('field', 'field is given here and in the condition: remove one.')
  const values = given.field ?? condition.field
  if (needsField && values === undefined) return refuse('type', `A correlation of type ${type} needs field.`)
  if (!needsField && values !== undefined) return refuse('field', `A correlation of type ${type} has no field.`)
  if (type !== 'new_value' && given.learning !== undefined) return refuse('learning', 'learning is only for new_value.')
  const list = values === undefined ? [] : typeof values === 'string' ? [values] : values
  const isList = Array.isArray(list) && list.every((each) => typeof each === 'string' && each.length <= 200)
  const fieldPath = inCondition ? [...path, 'condition', 'field'] : [...path, 'field']
  if (!isList || (needsField && list.length === 0) || list.length > ruleLimits.groupFields) {
    return void faults.add(
      fieldPath,
      `field is the name of a field, or a list of at most ${ruleLimits.groupFields} names.`,
    )
  }
  const aliases = given.aliases && compileAliases(given, path, parts)
  if (given.aliases && !aliases) return undefined
  const groupBy = aliases?.[0] ?? compileFields(given['group-by'] ?? [], [...path, 'group-by'], parts)
  if ([groupBy, ...(aliases ?? [])].flat().some((field) => field.name === 'tags')) {
    faults.add([...path, 'group-by'], 'Events cannot be grouped by tags: an instance has several.')
  }
  if (isFigure(type) && list.length > 1)
    return void faults.add(fieldPath, `A correlation of type ${type} has one field.`)
  const valueFields = needsField ? compileFields(list, fieldPath, parts) : []
  parts.budget.add(isFigure(type) ? figureUnits : highestValuesCost(valueFields))
  const steps = rules?.map((rule, index) => compileStep(rule, [...path, 'rules', index], parts, depth))
  if (!steps && parts.predicate === undefined) {
    return refuse('type', 'The detection needs a condition, or the correlation needs rules.')
  }
  const correlation = {
    type,
    group: groupReader(groupBy),
    groupOfStep: aliases?.map((fields) => groupReader(fields)),
    timespan: spanMs(timespan, [...path, 'timespan'], faults),
    values: needsField && !isFigure(type) ? valuesReader(valueFields) : undefined,
    figure: isFigure(type) && valueFields[0] ? figureTest(type, valueFields[0], condition) : undefined,
    ...range,
    learning: type === 'new_value' ? spanMs(given.learning ?? '1d', [...path, 'learning'], faults) : 0,
    historyKey: type === 'new_value' ? historyReader(name, groupBy) : undefined,
    isOfInstance: groupBy.some((field) => field.name === 'instance_id'),
  }
  if (steps?.includes(undefined)) return undefined
  return { ...correlation, steps: (steps as Step[]) ?? [{ predicate: parts.predicate! }] }
}
