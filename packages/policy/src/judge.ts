import { type Arguments, amountOf, evaluate, type Truth } from './conditions.ts'
import { type FlowFacts, flowAsks, flowFacts } from './flow.ts'
import { guessLabels, type ListedTool, unknownTool } from './guess.ts'
import type { ToolLabels } from './labels.ts'
import type { SessionMemory } from './memory.ts'
import { plainOf } from './plain.ts'
import {
  type Agent,
  type Decision,
  decisions,
  defaultWaitMs,
  isForAgent,
  type Policy,
  type Rule,
  type Scope,
} from './policy.ts'
import { matchesTools } from './tool-match.ts'

/** A call, before it runs. */
export interface Call {
  tool: string
  args: Arguments
  /** False if the arguments could not be read as a whole: no condition on them can be evaluated. */
  isComplete: boolean
  agent: Partial<Agent>
  /** Undefined if the host does not say it. */
  scope: Scope | undefined
  /** Milliseconds since the epoch. */
  at: number
}

/** What one policy says. `rule`: the title of the rule that decided, `flow`, or null for the default. */
export interface Judged {
  decision: Decision
  rule: string | null
  why: string | null
  approvals: 1 | 2
  waitMs: number
  /** What limits count if the call runs. */
  counts: readonly { limit: string; withinMs: number; amount: number }[]
}

/** The title under which the flow decides. */
const flowRule = 'flow'
const dayMs = 86_400_000
const minuteMs = 60_000
/** Values that are copied of the arguments of one call: more than a condition compares. */
const maxNodes = 20_000

/** Reads the arguments of a call, whatever they are. None at all are a map without entries. */
export function readCall(args: unknown): Pick<Call, 'args' | 'isComplete'> {
  const { value, isComplete } = plainOf(args ?? {}, maxNodes)
  const isMap = typeof value === 'object' && value !== null && !Array.isArray(value)
  return { args: isMap ? (value as Arguments) : {}, isComplete: isComplete && isMap }
}

/** Decides by one policy. It holds no state: what a session remembers is in its memory. */
export class PolicyJudge {
  readonly #id: string
  readonly #policy: Policy
  readonly #labels: ReadonlyMap<string, ToolLabels>

  /** `id` tells apart what the limits of several policies count; `tools`: for labels of tools that the policy has none for. */
  constructor(id: string, policy: Policy, tools: readonly ListedTool[]) {
    this.#id = id
    this.#policy = policy
    const guessed = tools
      .filter((tool) => typeof tool?.name === 'string')
      .map((tool) => [tool.name.toLowerCase(), guessLabels(tool)] as const)
    this.#labels = new Map([...guessed, ...policy.labels])
  }

  labelsOf = (tool: string): ToolLabels => {
    const name = tool.toLowerCase()
    return this.#labels.get(name) ?? this.#labels.get(name.replace(/^mcp__.+?__/, '')) ?? unknownTool
  }

  facts(memory: SessionMemory, call: Call): FlowFacts | undefined {
    return flowFacts(this.#policy.flow, memory, this.labelsOf, call)
  }

  /** Decides on a call: the strictest rule that matches, and the flow. */
  judge(memory: SessionMemory, call: Call): Judged {
    const counts: { limit: string; withinMs: number; amount: number }[] = []
    const byDefault = {
      decision: this.#policy.default,
      rule: null,
      why: null,
      approvals: 1,
      waitMs: defaultWaitMs,
    } as const
    let decided: Omit<Judged, 'counts'> | undefined
    let isCertain = false
    for (const rule of this.#policy.rules) {
      const truth = matchesRule(rule, call)
      if (!takesEffect(rule, truth)) continue
      const { title, decision, approvals, waitMs } = rule
      const limit = this.#limit(rule, memory, call)
      if (limit?.counts) counts.push(limit.counts)
      if (limit?.isWithin) continue
      const isUnknown = truth === 'unknown' || limit?.isUnknown === true
      isCertain ||= !isUnknown
      // Of rules that are equally strict, one that was evaluated says more.
      const saysMore = decided?.why != null && !isUnknown && !isStricter(decided, rule)
      if (decided && !saysMore && !isStricter(rule, decided)) continue
      const why = isUnknown ? 'The rule cannot be evaluated for this call, so it takes effect.' : null
      decided = { decision, rule: title, why, approvals, waitMs }
    }
    // A rule that may not match takes no call away from a default that is stricter.
    if (!decided || (!isCertain && isStricter(byDefault, decided))) decided = byDefault
    if (isStricter({ decision: 'ask', approvals: 1 }, decided)) {
      const why = flowAsks(this.#policy.flow, memory, this.labelsOf, call)
      if (why !== undefined) decided = { ...byDefault, decision: 'ask', rule: flowRule, why }
    }
    return { ...decided, counts }
  }

  /** Compares a call with the limit of a rule; undefined for a rule without one. */
  #limit({ title, decision, limit }: Rule, memory: SessionMemory, { args, at }: Call) {
    if (!limit) return undefined
    const { of, max, withinMs } = limit
    const amount = of === undefined ? 1 : amountOf(args, of)
    // A rule that cannot be evaluated takes effect, unless it allows.
    if (amount === undefined) return { isWithin: decision === 'allow', isUnknown: true }
    const key = `${this.#id}\n${title}`
    const isWithin = memory.counted(key, withinMs, at) + amount <= max
    // Refused calls do not count: they would keep the rule in effect for ever.
    return { isWithin, isUnknown: false, ...(isWithin ? { counts: { limit: key, withinMs, amount } } : {}) }
  }
}

/** A question to two people is stricter than one to a single person. */
export function isStricter(
  one: { decision: Decision; approvals: number },
  other: { decision: Decision; approvals: number },
): boolean {
  if (one.decision !== other.decision) return decisions.indexOf(one.decision) > decisions.indexOf(other.decision)
  return one.decision === 'ask' && one.approvals > other.approvals
}

/** A rule that cannot be evaluated holds back the call; one that allows does not allow it. */
const takesEffect = ({ decision }: Rule, truth: Truth): boolean =>
  truth === true || (truth === 'unknown' && decision !== 'allow')

/** Evaluates a rule without its limit. */
export function matchesRule(rule: Rule, { tool, args, isComplete, agent, scope, at }: Call): Truth {
  const { match, hours, expiresAt } = rule
  if (expiresAt !== undefined && at >= expiresAt) return false
  if (!isForAgent(match, agent)) return false
  const isNamed = match.scopes.length > 0
  if (isNamed && scope !== undefined && !match.scopes.includes(scope)) return false
  if (hours && !isWithin(hours, Math.floor((at % dayMs) / minuteMs))) return false
  // A rule that allows has to say so of each value and command, one that holds back only of one.
  const isForEach = rule.decision === 'allow'
  let truth = matchesTools(match.tools, { tool, args, isComplete }, isForEach)
  if (truth === false) return false
  if (isNamed && scope === undefined) truth = 'unknown'
  for (const condition of rule.when) {
    const one = isComplete ? evaluate(args, condition, isForEach) : 'unknown'
    if (one === false) return false
    if (one === 'unknown') truth = 'unknown'
  }
  return truth
}

const isWithin = ({ from, to }: NonNullable<Rule['hours']>, minute: number): boolean =>
  from <= to ? minute >= from && minute < to : minute >= from || minute < to
