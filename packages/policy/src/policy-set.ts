import type { FlowFacts } from './flow.ts'
import type { ListedTool } from './guess.ts'
import { isStricter, type Judged, PolicyJudge, readCall } from './judge.ts'
import { hasArgument, labelsOfCall } from './labels.ts'
import type { SessionMemory } from './memory.ts'
import { plainOf } from './plain.ts'
import { type Agent, type Decision, defaultWaitMs, type Policy, readPolicy, type Scope } from './policy.ts'

/** The policies of one agent, as the service delivers them. */
export interface DeliveredSet {
  /** `tags`: those that operators gave it. */
  agent: { id: string; tags: readonly string[] }
  /** `mode`: the one that holds for this agent. */
  policies: readonly {
    id: string
    title: string
    version: number
    mode: 'observe' | 'enforce'
    document: unknown
  }[]
}

export interface PolicyReference {
  id: string
  title: string
  version: number
}

export interface SetDecision {
  decision: Decision
  /** The title of the rule that decided, `flow`, or null for the default of a policy. */
  rule: string | null
  why: string | null
  /** The policy that decided; null if nothing matched. */
  policy: PolicyReference | null
  /** People who have to approve. */
  approvals: 1 | 2
  /** How long a question waits for them, in milliseconds. */
  waitMs: number
  /** What policies in mode observe would have said, only ask and deny. */
  observed: readonly { decision: 'ask' | 'deny'; rule: string | null; why: string | null; policy: PolicyReference }[]
}

/** A set that this version cannot read. */
export class PolicySetFault extends Error {
  override name = 'PolicySetFault'
}

/** A policy that was read from its document. */
export interface ReadPolicy extends PolicyReference {
  mode: 'observe' | 'enforce'
  policy: Policy
}

/** Policies of one agent: every decision looks at all of them. */
const maxPolicies = 1_000
/** Values that are read of one answer. */
const maxAnswerNodes = 200_000

const isText = (value: unknown): value is string => typeof value === 'string'
const isAgent = (value: unknown): value is Agent => {
  const { id, tags } = (value ?? {}) as Partial<Agent>
  return isText(id) && Array.isArray(tags) && tags.every(isText)
}

/** Decides on the calls of one agent by policies: each decides alone, and the strictest decision counts. */
export class PolicyDecider {
  readonly #agent: Partial<Agent>
  readonly #held: readonly { reference: PolicyReference; isEnforced: boolean; judge: PolicyJudge }[]

  /** `tools`: what tool servers list, for labels of tools that policies have none for. */
  constructor(agent: Partial<Agent>, policies: readonly ReadPolicy[], tools: readonly ListedTool[] = []) {
    this.#agent = agent
    this.#held = policies.map(({ id, title, version, mode, policy }) => {
      return {
        reference: { id, title, version },
        isEnforced: mode === 'enforce',
        judge: new PolicyJudge(id, policy, tools),
      }
    })
  }

  /**
   * Decides on a call, and counts it for limits unless it is denied. `scope`: undefined if the host does not say it; `at`:
   * milliseconds since the epoch.
   */
  decide(
    memory: SessionMemory,
    { tool, args, scope, at }: { tool: string; args: unknown; scope?: Scope | undefined; at: number },
  ): SetDecision {
    const call = { tool, ...readCall(args), agent: this.#agent, scope, at }
    const all = this.#held.map((held) => ({ ...held, judged: held.judge.judge(memory, call) }))
    let strictest: { judged: Judged; reference: PolicyReference } | undefined
    for (const one of all) {
      if (!one.isEnforced) continue
      const isBetter = strictest
        ? isStricter(one.judged, strictest.judged) ||
          (strictest.judged.rule === null && one.judged.rule !== null && !isStricter(strictest.judged, one.judged))
        : one.judged.rule !== null || one.judged.decision !== 'allow'
      if (isBetter) strictest = one
    }
    if (strictest?.judged.decision !== 'deny') {
      for (const { limit, withinMs, amount } of all.flatMap(({ judged }) => judged.counts)) {
        memory.count(limit, withinMs, at, amount)
      }
    }
    const { decision, rule, why, approvals, waitMs } = strictest?.judged ?? allowed
    const observed = all.flatMap(({ isEnforced, judged, reference }) =>
      isEnforced || judged.decision === 'allow'
        ? []
        : [{ decision: judged.decision, rule: judged.rule, why: judged.why, policy: reference }],
    )
    return { decision, rule, why, policy: strictest?.reference ?? null, approvals, waitMs, observed }
  }

  /** Returns what policies with a flow know of a call before it runs; undefined if none has one. */
  flowFacts(memory: SessionMemory, { tool, args }: { tool: string; args: unknown }): FlowFacts | undefined {
    const call = { tool, ...readCall(args), agent: this.#agent, scope: undefined, at: 0 }
    const all = this.#held.flatMap(({ judge }) => judge.facts(memory, call) ?? [])
    if (all.length === 0) return undefined
    return { met: [...new Set(all.flatMap(({ met }) => met))], proven: all.every(({ proven }) => proven) }
  }

  /** Remembers the answer of a call that ran. */
  learn(memory: SessionMemory, { tool, args }: { tool: string; args: unknown }, answer: unknown): void {
    const given = readCall(args).args
    const labels = this.#held.map(({ judge }) => judge.labelsOf(tool))
    const conditional = labels.flatMap(({ when }) => Object.keys(when).filter((name) => hasArgument(given, name)))
    const isDirectory = labels.some((one) => labelsOfCall(one, given).has('directory'))
    memory.learn(
      tool,
      { args: given, conditional: [...new Set(conditional)], isDirectory },
      plainOf(answer, maxAnswerNodes).value,
    )
  }
}

const allowed = { decision: 'allow', rule: null, why: null, approvals: 1, waitMs: defaultWaitMs } as const

/** Decides by the policies that the service delivered for one agent. */
export class PolicySet extends PolicyDecider {
  /** Throws PolicySetFault with a sentence when the set cannot be read. */
  constructor(set: DeliveredSet, tools: readonly ListedTool[] = []) {
    const { agent, policies } = (set ?? {}) as Partial<DeliveredSet>
    if (!isAgent(agent)) throw new PolicySetFault('agent must be a map with id and tags.')
    if (!Array.isArray(policies) || policies.length > maxPolicies) {
      throw new PolicySetFault(`policies must be a list of at most ${maxPolicies} policies.`)
    }
    super(
      agent,
      policies.map((policy, at) => read(policy, `policies[${at}]`)),
      tools,
    )
  }
}

function read(given: DeliveredSet['policies'][number], path: string): ReadPolicy {
  const { id, title, version, mode, document } = given ?? {}
  if (!isText(id) || !isText(title) || !Number.isSafeInteger(version) || (mode !== 'observe' && mode !== 'enforce')) {
    throw new PolicySetFault(`${path} must have id, title, version, mode (observe or enforce) and document.`)
  }
  const { policy, faults } = readPolicy(document)
  const [fault] = faults
  if (fault) {
    const place = fault.path === '' ? 'the document' : fault.path
    throw new PolicySetFault(`policy "${title}" cannot be read: ${place} ${fault.message}`)
  }
  return { id, title, version, mode, policy }
}
