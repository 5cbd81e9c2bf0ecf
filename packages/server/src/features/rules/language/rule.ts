import { limits, RuleDocument, ruleLimits } from '@wardline/contract'
import { matchesPattern } from '@wardline/text'
import { lazyCheck, validationSentence } from '../../../validation.ts'
import { Budget } from './budget.ts'
import { type CorrelationParts, compileCorrelation, pointer, spanMs } from './compile-correlation.ts'
import { namesIn, parseCondition, selectionNameFault } from './condition.ts'
import type { Correlation } from './correlation.ts'
import { exceptionsCost } from './cost.ts'
import { isTimeZone } from './date-part.ts'
import { readText, type SourceDocument } from './document.ts'
import type { Faults, RuleFault } from './fault.ts'
import { fieldOf, type RuleEvent } from './fields.ts'
import { groupReader } from './group-keys.ts'
import { listsIn, noLists, type RuleLists } from './placeholders.ts'
import type { Predicate } from './predicate.ts'
import { compileCondition, compileSelection } from './selection.ts'

export interface CompiledRule {
  document: RuleDocument
  correlation: Correlation
  /** Entries of the lists that its selections name. */
  lists: ReadonlyMap<string, readonly string[]>
  /** Milliseconds. */
  cooldown: number
  /** Units of work (see `WorkBudget`) that an event costs at worst. */
  cost: number
  isExcepted(event: RuleEvent, time: number): boolean
  /** Patterns of all exceptions. */
  exceptionPatterns: number
  /** Whether its firings depend on the time that passes: it sees each event, also those that it does not match. */
  watchesTime: boolean
  /** Predicates of all its correlations. */
  predicates: readonly Predicate[]
  /** Selections by name, to explain failed tests. */
  selections: ReadonlyMap<string, Predicate>
}

interface ParsedRule {
  rule: CompiledRule
  source: SourceDocument
}

interface ParsedRules {
  rules: ParsedRule[]
  faults: RuleFault[]
}

const checkDocument = lazyCheck(RuleDocument)

/** Group of a rule without correlation: the instance, or one group for all events without an instance. */
const instanceOrNone = fieldOf('instance_id or none', ({ row }) => row.instance_id ?? '')

const single = (predicate: Predicate): Correlation => ({
  type: 'event_count',
  steps: [{ predicate }],
  group: groupReader([instanceOrNone]),
  groupOfStep: undefined,
  timespan: 0,
  values: undefined,
  figure: undefined,
  min: 1,
  max: Number.POSITIVE_INFINITY,
  not: undefined,
  isLate: false,
  learning: 0,
  historyKey: undefined,
  isOfInstance: true,
})

function exceptionsOf({ exceptions = [] }: RuleDocument, faults: Faults): CompiledRule['isExcepted'] {
  const compiled = exceptions.map(({ who: { instances = [], tags = [] }, until }, index) => {
    const end = Date.parse(until)
    const path = ['exceptions', index]
    if (Number.isNaN(end)) faults.add([...path, 'until'], `${until} is not a date.`)
    if (instances.length + tags.length === 0) faults.add([...path, 'who'], 'who needs instances or tags.')
    return { instances, tags, end }
  })
  if (compiled.length === 0) return () => false
  return ({ row, tags: given }, time) =>
    compiled.some(
      ({ instances, tags, end }) =>
        time < end &&
        (instances.some((pattern) => row.instance_id !== null && matchesPattern(pattern, row.instance_id)) ||
          tags.some((pattern) => given.some((tag) => matchesPattern(pattern, tag)))),
    )
}

function checkResponses({ response = [] }: RuleDocument, faults: Faults): void {
  const owners: Record<string, string[]> = {
    for: ['suspend', 'suspend_tag'],
    channel: ['alert'],
    tag: ['suspend_tag'],
    point: ['call'],
  }
  for (const [index, each] of response.entries()) {
    for (const name of Object.keys(each).filter((key) => !(owners[key]?.includes(each.action) ?? true))) {
      faults.add(['response', index, name], `${name} is not an option of the action ${each.action}.`)
    }
    const needed = each.action === 'suspend_tag' ? 'tag' : each.action === 'call' ? 'point' : undefined
    if (needed && each[needed] === undefined)
      faults.add(['response', index], `The action ${each.action} needs ${needed}.`)
  }
}

const patternsOf = ({ exceptions = [] }: RuleDocument): number =>
  exceptions.reduce((sum, { who: { instances = [], tags = [] } }) => sum + instances.length + tags.length, 0)

/**
 * Default cooldown. A new value is none when it is shown again, and the next one must not pass in silence: what a new tool
 * of an agent does first is rarely what it does last.
 */
const defaultCooldown = (correlation: Correlation | undefined): number =>
  correlation === undefined || correlation.type === 'new_value' ? 0 : correlation.timespan

const watchesTime = ({ type, isLate, steps }: Correlation): boolean =>
  isLate || type === 'not_preceded' || steps.some((step) => 'correlation' in step && watchesTime(step.correlation))

const predicatesOf = ({ steps }: Correlation): Predicate[] =>
  steps.flatMap((each) => ('predicate' in each ? [each.predicate] : predicatesOf(each.correlation)))

/** Compiles one document; adds faults, and returns undefined if they leave nothing to run. */
function compile(document: RuleDocument, faults: Faults, lists: RuleLists): Omit<CompiledRule, 'document'> | undefined {
  const { detection, correlation: given } = document
  const { condition: text, ...selectionTexts } = detection
  const names = Object.keys(selectionTexts)
  if (names.length === 0) return void faults.add(['detection'], 'The detection has no selection.')
  if (names.length > ruleLimits.selections) {
    return void faults.add(['detection'], `A rule has at most ${ruleLimits.selections} selections.`)
  }
  const budget = new Budget()
  const { timezone } = document
  // Reading the data of time zones takes time and memory, and most rules name none.
  const isKnownZone = timezone === undefined || isTimeZone(timezone)
  if (!isKnownZone) faults.add(['timezone'], `${timezone} is not a time zone: write a name such as Europe/Berlin.`)
  const scope = { budget, timezone: (isKnownZone ? timezone : undefined) ?? 'UTC', lists }
  const selections = new Map<string, Predicate>()
  for (const name of names) {
    const nameFault = selectionNameFault(name)
    if (nameFault) faults.add(['detection', name], nameFault)
    const predicate = compileSelection(selectionTexts[name], ['detection', name], faults, scope)
    if (predicate) selections.set(name, predicate)
  }
  const used = new Set<string>()
  let predicate: Predicate | undefined
  if (text !== undefined) {
    const parsed = parseCondition(text, names)
    if ('sentence' in parsed) {
      faults.add(['detection', 'condition'], parsed.sentence, parsed.offset)
      // An invalid condition does not show which selections it uses, so none is reported as unused.
      for (const name of names) used.add(name)
    } else {
      const named = namesIn(parsed.condition)
      budget.name(named.length, ['detection', 'condition'], faults)
      for (const name of named) used.add(name)
      if (selections.size === names.length) predicate = compileCondition(parsed.condition, selections)
    }
  } else if (given?.rules === undefined) {
    faults.add(['detection'], 'The detection needs a condition.')
    for (const name of names) used.add(name)
  }
  const parts: CorrelationParts = { names, selections, predicate, used, faults, budget, count: 0 }
  const isReady = text === undefined || predicate !== undefined
  const correlation =
    given && isReady ? compileCorrelation(given, ['correlation'], parts) : predicate && single(predicate)
  const isUseKnown = isReady || given?.rules === undefined
  for (const name of isUseKnown ? names.filter((each) => !used.has(each)) : []) {
    faults.add(['detection', name], `The selection ${name} is not used by the condition.`)
  }
  checkResponses(document, faults)
  const isExcepted = exceptionsOf(document, faults)
  const cooldown =
    document.cooldown === undefined ? defaultCooldown(correlation) : spanMs(document.cooldown, ['cooldown'], faults)
  if (!correlation) return undefined
  const predicates = [...new Set(predicatesOf(correlation))]
  const exceptionPatterns = patternsOf(document)
  return {
    correlation,
    lists: new Map(listsIn(selectionTexts).map((name) => [name, lists.get(name) ?? []])),
    cooldown,
    cost: budget.units + exceptionsCost(exceptionPatterns, 2 * limits.tags),
    predicates,
    isExcepted,
    exceptionPatterns,
    watchesTime: watchesTime(correlation),
    selections,
  }
}

/** Validates and compiles one document of a text. */
function compileDocument(source: SourceDocument, lists: RuleLists): { rule?: CompiledRule; faults: RuleFault[] } {
  const { value } = source
  if (!checkDocument(value)) {
    const fault = checkDocument.errors![0]!
    const extra = (fault.params as { additionalProperty?: string }).additionalProperty
    const path = [...pointer(fault.instancePath), ...(extra === undefined ? [] : [extra])]
    return { faults: [source.fault(path, validationSentence(fault))] }
  }
  const found: RuleFault[] = []
  const faults: Faults = { add: (path, sentence, offset) => found.push(source.fault(path, sentence, offset)) }
  const document = value as RuleDocument
  const rule = compile(document, faults, lists)
  return rule && found.length === 0 ? { rule: { document, ...rule }, faults: [] } : { faults: found }
}

/** Compiles the document of a stored rule, which was checked before. Throws if it does not compile. */
export function compileStored(document: RuleDocument, lists = noLists): CompiledRule {
  const sentences: string[] = []
  const faults: Faults = { add: (path, sentence) => sentences.push(`${path.join('.')}: ${sentence}`) }
  const rule = compile(document, faults, lists)
  if (!rule || sentences.length > 0) throw new Error(sentences.join(' '))
  return { document, ...rule }
}

/**
 * Parses and compiles rules from YAML or JSON, one per document; documents after `max` are refused without compiling.
 */
export function parseRules(text: string, max: number = ruleLimits.documents, lists = noLists): ParsedRules {
  const { documents, faults } = readText(text)
  const rules: ParsedRule[] = []
  const all = [...faults]
  const excess = documents[max]
  if (excess) all.push(excess.fault([], 'The text has several rules: send each separately.'))
  for (const source of documents.slice(0, max)) {
    const compiled = compileDocument(source, lists)
    all.push(...compiled.faults)
    if (compiled.rule) rules.push({ rule: compiled.rule, source })
  }
  return { rules, faults: all.sort((a, b) => a.line - b.line || a.column - b.column) }
}
