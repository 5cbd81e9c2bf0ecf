import { evaluate, type Truth } from './conditions.ts'
import { flowAsks } from './flow.ts'
import { matchesGlob } from './glob.ts'
import { guessLabels, type ListedTool, unknownTool } from './guess.ts'
import { labelsOfCall, type ToolLabels } from './labels.ts'
import type { SessionMemory } from './memory.ts'
import { type Decision, decisions, type Policy, type Rule } from './policy.ts'
import { matchesTool } from './tool-match.ts'

/** A call of a tool, before it runs. `tags`: those that operators and keys gave the agent. */
export interface Call {
  tool: string
  args: Readonly<Record<string, unknown>>
  agent?: string
  tags?: readonly string[]
  /** Milliseconds since the epoch. */
  at: number
}

/** `rule`: the title of the rule that decided, `flow`, or null for the default. */
export interface Decided {
  decision: Decision
  rule: string | null
  why: string | null
}

/** The title under which the flow decides. */
const flowRule = 'flow'
const dayMs = 86_400_000
const minuteMs = 60_000

const stricter = (one: Decision, other: Decision): boolean => decisions.indexOf(one) > decisions.indexOf(other)

/** Decides on the calls of one session by one policy. */
export class Decider {
  readonly #policy: Policy
  readonly #memory: SessionMemory
  readonly #labels: ReadonlyMap<string, ToolLabels>
  /** Times of the calls that a rule with a limit matched, by title. */
  readonly #calls = new Map<string, number[]>()

  /** `tools`: what the servers list, for labels of tools that the policy has none for. */
  constructor(policy: Policy, memory: SessionMemory, tools: readonly ListedTool[] = []) {
    this.#policy = policy
    this.#memory = memory
    const guessed = tools.map((tool) => [tool.name.toLowerCase(), guessLabels(tool)] as const)
    this.#labels = new Map([...guessed, ...policy.labels])
  }

  labelsOf(tool: string): ToolLabels {
    const name = tool.toLowerCase()
    return this.#labels.get(name) ?? this.#labels.get(name.replace(/^mcp__.+?__/, '')) ?? unknownTool
  }

  /** Decides on a call: the strictest rule that matches, and the flow. */
  decide(call: Call): Decided {
    const policy = this.#policy
    if (!isFor(policy, call)) return { decision: 'allow', rule: null, why: null }
    let decided: Decided | undefined
    for (const rule of policy.rules) {
      const truth = matchesRule(rule, call)
      if (!takesEffect(rule, truth) || !this.#isBeyond(rule, call.at)) continue
      if (decided && !stricter(rule.decision, decided.decision)) continue
      const why = truth === 'unknown' ? 'The rule cannot be evaluated for these arguments, so it takes effect.' : null
      decided = { decision: rule.decision, rule: rule.title, why }
    }
    decided ??= { decision: policy.default, rule: null, why: null }
    if (!stricter('ask', decided.decision)) return decided
    const why = flowAsks(policy.flow, this.#memory, this.labelsOf(call.tool), call.args)
    return why === undefined ? decided : { decision: 'ask', rule: flowRule, why }
  }

  /** Remembers the answer of a call that ran. */
  learn({ tool, args }: Pick<Call, 'tool' | 'args'>, answer: unknown): void {
    this.#memory.learn(tool, args, labelsOfCall(this.labelsOf(tool), args), answer)
  }

  /** Counts the call for the rule's limit; true for a rule without one. */
  #isBeyond({ title, limit }: Rule, at: number): boolean {
    if (!limit) return true
    const recent = (this.#calls.get(title) ?? []).filter((time) => time > at - limit.withinMs)
    const isBeyond = recent.length >= limit.calls
    // Refused calls do not count: they would keep the rule in effect for ever.
    if (!isBeyond) recent.push(at)
    this.#calls.set(title, recent)
    return isBeyond
  }
}

/** A rule that cannot be evaluated holds back the call; one that allows does not allow it. */
const takesEffect = ({ decision }: Rule, truth: Truth): boolean =>
  truth === true || (truth === 'unknown' && decision !== 'allow')

const isAgent = (patterns: readonly string[], agent: string | undefined): boolean =>
  patterns.length === 0 || patterns.some((pattern) => agent !== undefined && matchesGlob(pattern, agent))
const hasTag = (wanted: readonly string[], tags: readonly string[] = []): boolean =>
  wanted.length === 0 || wanted.some((tag) => tags.includes(tag))

const isFor = ({ for: whom }: Policy, { agent, tags }: Call): boolean =>
  isAgent(whom.agents, agent) && hasTag(whom.tags, tags)

/** Evaluates a rule without its limit. */
export function matchesRule(rule: Rule, { tool, args, agent, tags, at }: Call): Truth {
  const { match, hours, expiresAt } = rule
  if (expiresAt !== undefined && at >= expiresAt) return false
  if (!isAgent(match.agents, agent) || !hasTag(match.tags, tags)) return false
  if (hours && !isWithin(hours, Math.floor((at % dayMs) / minuteMs))) return false
  const truths: Truth[] = rule.when.map((condition) => evaluate(args, condition))
  if (match.tools.length > 0) {
    const tools = match.tools.map((pattern) => matchesTool(pattern, tool, args))
    truths.push(tools.includes(true) || (tools.includes('unknown') ? 'unknown' : false))
  }
  if (truths.includes(false)) return false
  return truths.includes('unknown') ? 'unknown' : true
}

const isWithin = ({ from, to }: NonNullable<Rule['hours']>, minute: number): boolean =>
  from <= to ? minute >= from && minute < to : minute >= from || minute < to
