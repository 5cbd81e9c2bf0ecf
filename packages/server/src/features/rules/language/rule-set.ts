import { type Slices, WorkBudget } from '../../../work-turns.ts'
import type { Correlation, ValueHistory } from './correlation.ts'
import { exceptionsCost, valueUnits } from './cost.ts'
import { isRepeatedCall, type RuleEvent, takeWalked, toolName, typeName } from './fields.ts'
import { asked, type EventKind, isCostly, type Matches, type Predicate } from './predicate.ts'
import type { CompiledRule } from './rule.ts'
import { type Firing, passTime, type RuleState, ruleBounds, step, stepMatched } from './rule-state.ts'

/** Maximum cached candidates, about 15 MiB: kinds of events are combinations of the types and tools that rules name. */
const maxCandidates = 50_000

/**
 * A rule with its state. The runner keeps these objects, so that states survive when a set is rebuilt after a change.
 */
interface RunningRule {
  compiled: CompiledRule
  state: RuleState
  history: ValueHistory
}

/** A firing with its rule. */
export interface RuleFiring<Running extends RunningRule> {
  running: Running
  firing: Firing
}

/** A rule that may match events of a kind. */
interface Candidate<Running> {
  running: Running
  /** Predicates that match every event of the kind. */
  certain: readonly Predicate[]
  /** Predicates that depend on the event, with the test that remains. */
  asked: readonly { predicate: Predicate; matches: Matches }[]
  /** Whether the tests may cost much of a slice, and there are several between which it can end. */
  isCostly: boolean
  /** Whether a match costs more than a lookup. */
  isCounted: boolean
}

/** Returns undefined if no event of the kind can match. */
function candidateOf<Running extends RunningRule>(running: Running, kind: EventKind): Candidate<Running> | undefined {
  const left = running.compiled.predicates.map((predicate) => ({ predicate, matches: predicate.ofKind(kind) }))
  const certain = left.filter(({ matches }) => matches === true).map(({ predicate }) => predicate)
  const asked = left.flatMap(({ predicate, matches }) =>
    typeof matches === 'function' ? [{ predicate, matches }] : [],
  )
  if (certain.length + asked.length === 0) return undefined
  const questions = asked.map(({ matches }) => matches)
  return {
    running,
    certain,
    asked,
    isCostly: isCostly(questions) && (questions.length > 1 || questions[0]!.inSlices !== undefined),
    isCounted: isCountedRule(running.compiled),
  }
}

/** Allocates a list only if a test matches: most events match nothing of most rules. */
function matchedOf(
  { certain, asked }: Candidate<RunningRule>,
  event: RuleEvent,
  work: WorkBudget,
): readonly Predicate[] {
  let matched: Predicate[] | undefined
  for (const { predicate, matches } of asked) {
    if (!matches(event, work)) continue
    matched ??= [...certain]
    matched.push(predicate)
  }
  return matched ?? certain
}

function* matchedInSlices(
  { certain, asked: questions }: Pick<Candidate<RunningRule>, 'certain' | 'asked'>,
  event: RuleEvent,
  work: WorkBudget,
): Slices<readonly Predicate[]> {
  const matched = [...certain]
  for (const { predicate, matches } of questions) if (yield* asked(matches, event, work)) matched.push(predicate)
  return matched
}

const readsValues = ({ values, steps }: Correlation): boolean =>
  values !== undefined || steps.some((step) => 'correlation' in step && readsValues(step.correlation))

/** Units that the values of an event cost in a correlation and nested ones. */
function valuesCost({ values, steps }: Correlation, event: RuleEvent): number {
  let units = values === undefined ? 0 : valueUnits * values(event).length
  for (const step of steps) if ('correlation' in step) units += valuesCost(step.correlation, event)
  return units
}

/** Whether a match costs more than a lookup. */
const isCountedRule = ({ correlation, exceptionPatterns }: CompiledRule): boolean =>
  exceptionPatterns > 0 || readsValues(correlation)

/** Units of what a rule does with an event that it matched. */
const matchedCost = ({ correlation, exceptionPatterns }: CompiledRule, event: RuleEvent): number =>
  valuesCost(correlation, event) + exceptionsCost(exceptionPatterns, event.tags.length)

/** Like `step`, in slices of about a millisecond. Another event must wait until the last slice is done. */
export function* stepInSlices(
  { compiled, state, history }: RunningRule,
  event: RuleEvent,
  work: WorkBudget,
): Slices<readonly Firing[]> {
  if (work.isSliceOver()) yield
  if (isRepeatedCall(event)) return yield* passTime(compiled, state, event, ruleBounds, work)
  const isCheap =
    !isCountedRule(compiled) && !compiled.watchesTime && !isCostly(compiled.predicates.map(({ matches }) => matches))
  if (isCheap) {
    const firings = step(compiled, state, event, history, ruleBounds, work)
    work.count(takeWalked())
    return firings
  }
  const late = yield* passTime(compiled, state, event, ruleBounds, work)
  const questions = compiled.predicates.map((predicate) => ({ predicate, matches: predicate.matches }))
  const matched = yield* matchedInSlices({ certain: [], asked: questions }, event, work)
  if (matched.length === 0) return late
  work.count(matchedCost(compiled, event))
  return [...late, ...stepMatched(compiled, state, event, matched, history, ruleBounds)]
}

/**
 * Runs many rules over one log: the same firings as `step` for each rule, but faster.
 *
 *     const set = new RuleSet(rules.map((rule) => ({ compiled: rule, state: ruleStates.start(rule), history: new ValueMemory() })))
 *     for (const event of eventsInOrderOfSeq) for (const { running, firing } of set.take(event)) …
 *
 * Tests on type and tool run once per combination. All types and tools that no rule names count as one, because agents
 * can invent them. Pass each event once, in order of seq. Rules share nothing, so a rule may join with a state that
 * another set rebuilt.
 */
export class RuleSet<Running extends RunningRule> {
  readonly #rules: readonly Running[]
  readonly #watching: readonly Running[]
  /** Rules that may match, by type and tool. */
  readonly #candidates = new Map<EventKind['event_type'], Map<EventKind['tool'], readonly Candidate<Running>[]>>()
  #kept = 0
  readonly #names: ReadonlySet<string>
  readonly #work = new WorkBudget(Number.POSITIVE_INFINITY)

  constructor(rules: readonly Running[]) {
    this.#rules = rules
    this.#watching = rules.filter(({ compiled }) => compiled.watchesTime)
    this.#names = new Set(rules.flatMap(({ compiled }) => compiled.predicates.flatMap(({ names }) => [...names])))
  }

  /** Runs the next event of the log through every rule. Returns firings in the order of the rules. */
  take(event: RuleEvent): readonly RuleFiring<Running>[] {
    const steps = this.takeInSlices(event, this.#work)
    for (;;) {
      const step = steps.next()
      if (step.done === true) return step.value
    }
  }

  /** The same in slices of about a millisecond: the rules together may cost an event much more. */
  *takeInSlices(event: RuleEvent, work: WorkBudget): Slices<readonly RuleFiring<Running>[]> {
    const found: RuleFiring<Running>[] = []
    for (const running of this.#watching) {
      const { compiled, state } = running
      const firings = yield* passTime(compiled, state, event, ruleBounds, work)
      for (const firing of firings) found.push({ running, firing })
    }
    if (isRepeatedCall(event)) return found
    const candidates = this.#candidatesOf(event)
    for (let at = 0; ; at += 1) {
      at = this.#run(candidates, at, event, work, found)
      const costly = candidates[at]
      if (costly === undefined) return found
      if (work.isSliceOver()) yield
      this.#match(costly, yield* matchedInSlices(costly, event, work), event, work, found)
    }
  }

  /** Runs candidates from `at` on. Returns the index of the next one that is costly, or that comes after the slice. */
  #run(
    candidates: readonly Candidate<Running>[],
    from: number,
    event: RuleEvent,
    work: WorkBudget,
    found: RuleFiring<Running>[],
  ): number {
    let at = from
    for (; at < candidates.length; at += 1) {
      const candidate = candidates[at]!
      if (candidate.isCostly || work.isDue) break
      this.#match(candidate, matchedOf(candidate, event, work), event, work, found)
      work.count(takeWalked())
    }
    return at
  }

  #match(
    { running, isCounted }: Candidate<Running>,
    matched: readonly Predicate[],
    event: RuleEvent,
    work: WorkBudget,
    found: RuleFiring<Running>[],
  ): void {
    if (matched.length === 0) return
    const { compiled, state, history } = running
    if (isCounted) work.count(matchedCost(compiled, event))
    const firings = stepMatched(compiled, state, event, matched, history, ruleBounds)
    for (const firing of firings) found.push({ running, firing })
  }

  #candidatesOf(event: RuleEvent): readonly Candidate<Running>[] {
    const kind = { event_type: this.#named(typeName(event)), tool: this.#named(toolName(event)) }
    const known = this.#candidates.get(kind.event_type)?.get(kind.tool)
    if (known) return known
    const candidates = this.#rules.flatMap((running) => candidateOf(running, kind) ?? [])
    this.#kept += candidates.length + 1
    if (this.#kept > maxCandidates) {
      this.#candidates.clear()
      this.#kept = candidates.length + 1
    }
    const byTool = this.#candidates.get(kind.event_type) ?? new Map<EventKind['tool'], readonly Candidate<Running>[]>()
    this.#candidates.set(kind.event_type, byTool.set(kind.tool, candidates))
    return candidates
  }

  #named<Name extends string | undefined>(name: Name): Name | null {
    return name === undefined || this.#names.has(name) ? name : null
  }
}
