import { RuleCorrelation, ruleLimits } from '@wardline/contract'
import { lazyCheck, validationSentence } from '../../../validation.ts'
import { type Condition, namesIn, parseCondition } from './condition.ts'
import type { Correlation, Step } from './correlation.ts'
import { highestValuesCost } from './cost.ts'
import { durationMs } from './duration.ts'
import type { Faults, Path } from './fault.ts'
import { type Field, findField } from './fields.ts'
import { groupReader, historyReader, valuesReader } from './group-keys.ts'
import { type Budget, compileCondition, everyOf, type Predicate, type Selections } from './selection.ts'

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

/** Returns the range of counts that fire, or a sentence if the condition cannot be decided from events alone. */
function rangeOf(correlation: RuleCorrelation): { min: number; max: number } | string {
  const { type, condition = {}, rules = [] } = correlation
  const { gt, gte, lt, lte, eq } = condition
  const given = [gt, gte, lt, lte, eq].filter((limit) => limit !== undefined)
  if (type === 'temporal_ordered' || type === 'new_value') {
    if (given.length > 0) return `A correlation of type ${type} has no condition.`
    return { min: type === 'new_value' ? 1 : rules.length, max: Number.POSITIVE_INFINITY }
  }
  if (type === 'temporal' && given.length === 0) return { min: rules.length, max: Number.POSITIVE_INFINITY }
  const min = Math.max(gt === undefined ? 0 : gt + 1, gte ?? 0, eq ?? 0)
  const max = Math.min(
    lt === undefined ? Number.POSITIVE_INFINITY : lt - 1,
    lte ?? Number.POSITIVE_INFINITY,
    eq ?? Number.POSITIVE_INFINITY,
  )
  if (min === 0)
    return 'The condition needs a lower bound of at least 1: gte, gt or eq. A count below something holds at the first event.'
  if (min > max) return 'No count meets this condition.'
  if (type === 'temporal' && min > rules.length)
    return `The condition counts rules, of which there are ${rules.length}.`
  return { min, max }
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
  const range = rangeOf(given)
  if (typeof range === 'string') return refuse(given.condition ? 'condition' : 'type', range)
  const isOfRules = type === 'temporal' || type === 'temporal_ordered'
  if (isOfRules && (rules?.length ?? 0) < 2)
    return refuse('rules', `A correlation of type ${type} needs rules, at least two.`)
  const needsField = type === 'value_count' || type === 'new_value'
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
  const groupBy = compileFields(given['group-by'] ?? [], [...path, 'group-by'], parts)
  if (groupBy.some((field) => field.name === 'tags')) {
    faults.add([...path, 'group-by'], 'Events cannot be grouped by tags: an instance has several.')
  }
  const valueFields = needsField ? compileFields(list, fieldPath, parts) : []
  parts.budget.add(highestValuesCost(valueFields))
  const steps = rules?.map((rule, index) => compileStep(rule, [...path, 'rules', index], parts, depth))
  if (!steps && parts.predicate === undefined) {
    return refuse('type', 'The detection needs a condition, or the correlation needs rules.')
  }
  const correlation = {
    type,
    group: groupReader(groupBy),
    timespan: spanMs(timespan, [...path, 'timespan'], faults),
    values: needsField ? valuesReader(valueFields) : undefined,
    ...range,
    learning: type === 'new_value' ? spanMs(given.learning ?? '1d', [...path, 'learning'], faults) : 0,
    historyKey: type === 'new_value' ? historyReader(name, groupBy) : undefined,
    isOfInstance: groupBy.some((field) => field.name === 'instance_id'),
  }
  if (steps?.includes(undefined)) return undefined
  return { ...correlation, steps: (steps as Step[]) ?? [{ predicate: parts.predicate! }] }
}
