import {
  eventTypes,
  type PolicyBacktest,
  type PolicyBacktestBody,
  ruleLimits,
  secondWitness,
  storedPolicyLimits,
  toolOf,
} from '@wardline/contract'
import { type Agent, isForAgent, type ListedTool, type Policy, PolicyDecider, SessionMemory } from '@wardline/policy'
import { dayMs, isoTime, isoTimeOrNull } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { timesOf } from '../rules/backtest.ts'
import type { readRuleEvents } from '../rules/event-log.ts'
import {
  type Asking,
  type LogReplays,
  type LogSpan,
  type Replay,
  type RunningReplay,
  readSpan,
} from '../rules/log-replay.ts'
import { RuleTurn } from '../rules/rule-pace.ts'
import { unknownPolicy } from './policies.ts'
import { readGiven } from './policy-text.ts'
import { findPolicy } from './queries.ts'

type Event = Awaited<ReturnType<typeof readRuleEvents>>[number]
type Sample = Omit<PolicyBacktest['samples'][number], 'at'> & { at: number }

const defaultSpanMs = 7 * dayMs
/** The longest window of a limit; sessions that began earlier are judged as if they began there. */
const warmUpMs = dayMs
/** Sessions whose calls are remembered: some 5 KiB each. */
const maxSessions = 5_000
/** Each has up to 2,000 labels. */
const maxDeciders = 200

/** What a client stored with a call of what its session had met. A caller may send anything in its place. */
const flowOf = (metadata: Record<string, unknown> | null): { proven?: unknown } | undefined => {
  const { flow } = metadata ?? {}
  return typeof flow === 'object' && flow !== null ? flow : undefined
}

/** Decides on stored calls, session by session, and counts what it says. Memory is bounded, whatever was stored. */
class PolicyReplay {
  readonly #policy: Policy
  readonly #tools: readonly ListedTool[]
  readonly #span: { from: number; to: number }
  /** Whether rules are for some agents. */
  readonly #tellsApart: boolean
  readonly #deciders = new Map<string, PolicyDecider>()
  /** What each session has met, those with the oldest calls first. */
  readonly #sessions = new Map<string, SessionMemory>()
  readonly #counted = new Set<string>()
  readonly #agents = new Set<string>()
  readonly #rules = new Map<string, PolicyBacktest['rules'][number]>()
  #samples: Sample[] = []
  #sessionCount = 0
  readonly #counts = { calls: 0, asked: 0, denied: 0, unjudged: 0, without_arguments: 0, evicted: 0 }

  constructor(policy: Policy, tools: readonly ListedTool[], span: { from: number; to: number }) {
    this.#policy = policy
    this.#tellsApart = policy.rules.some(({ match }) => match.agents.length + match.tags.length > 0)
    this.#tools = tools
    this.#span = span
  }

  take({ row, tags }: Event): void {
    const { metadata, instance_id, session_id } = row
    if (metadata?.[secondWitness] === true) return
    const tool = row.event_type === eventTypes.toolCall ? toolOf(metadata) : null
    const agent = { ...(instance_id === null ? {} : { id: instance_id }), tags }
    if (tool === null || !isForAgent(this.#policy.for, agent)) return
    const at = Date.parse(row.created_at)
    const isCounted = at >= this.#span.from && at < this.#span.to
    const key = JSON.stringify([instance_id, session_id])
    const memory = this.#memoryOf(key, isCounted)
    const args = metadata?.params ?? {}
    const decider = this.#deciderOf(agent)
    const { decision, rule, why } = decider.decide(memory, { tool, args, at })
    if (decision !== 'deny') decider.learn(memory, { tool, args }, null)
    if (!isCounted) return
    this.#counts.calls += 1
    if (metadata?.params === undefined) this.#counts.without_arguments += 1
    if (decision === 'allow') return
    if (decision === 'ask' && rule === 'flow') {
      const facts = flowOf(metadata)
      if (facts?.proven === true) return
      if (facts === undefined) {
        this.#counts.unjudged += 1
        return
      }
    }
    this.#count({ seq: row.seq!, event_id: row.id, at, instance_id, session_id, tool, decision, rule, why })
  }

  /** Each decider has the labels of all tools, so agents share one unless rules tell them apart. */
  #deciderOf(agent: Partial<Agent>): PolicyDecider {
    const key = this.#tellsApart ? JSON.stringify(agent) : ''
    const known = this.#deciders.get(key)
    if (known) return known
    if (this.#deciders.size >= maxDeciders) this.#deciders.clear()
    const read = { id: '', title: this.#policy.title, version: 1, mode: 'enforce', policy: this.#policy } as const
    const decider = new PolicyDecider(agent, [read], this.#tools)
    this.#deciders.set(key, decider)
    return decider
  }

  #memoryOf(key: string, isCounted: boolean): SessionMemory {
    const memory = this.#sessions.get(key) ?? new SessionMemory()
    this.#sessions.delete(key)
    this.#sessions.set(key, memory)
    if (this.#sessions.size > maxSessions) {
      const [oldest] = this.#sessions.keys()
      this.#sessions.delete(oldest!)
      this.#counted.delete(oldest!)
      this.#counts.evicted += 1
    }
    if (isCounted && !this.#counted.has(key)) {
      this.#counted.add(key)
      this.#sessionCount += 1
    }
    return memory
  }

  #count(sample: Sample): void {
    const { decision, rule, instance_id } = sample
    this.#counts[decision === 'ask' ? 'asked' : 'denied'] += 1
    const name = JSON.stringify([rule, decision])
    const counted = this.#rules.get(name) ?? { rule, decision, count: 0 }
    this.#rules.set(name, { ...counted, count: counted.count + 1 })
    if (instance_id !== null && this.#agents.size < ruleLimits.firingInstances) this.#agents.add(instance_id)
    this.#samples.push(sample)
    if (this.#samples.length >= 2 * storedPolicyLimits.backtestSamples) this.#samples = this.#shown()
  }

  #shown = (): Sample[] => this.#samples.slice(-storedPolicyLimits.backtestSamples)

  result(): Omit<PolicyBacktest, 'from' | 'to' | 'data_from' | 'events_read' | 'duration_ms'> {
    const { asked } = this.#counts
    const cut = <Text extends string | null>(text: Text): Text =>
      (text?.slice(0, storedPolicyLimits.backtestNameLength) ?? null) as Text
    return {
      ...this.#counts,
      agents: this.#agents.size,
      sessions: this.#sessionCount,
      asks_per_session: this.#sessionCount === 0 ? 0 : Math.round((100 * asked) / this.#sessionCount) / 100,
      rules: [...this.#rules.values()].sort((one, other) => other.count - one.count),
      samples: this.#shown()
        .reverse()
        .map(({ at, tool, ...sample }) => ({ ...sample, at: isoTime(at), tool: cut(tool) })),
    }
  }
}

/** Backtests of policies: the decisions of agents on the tool calls that are stored. */
export class PolicyBacktests {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #replays: LogReplays

  constructor(deps: Pick<Deps, 'database' | 'clock'>, { logReplays }: { logReplays: LogReplays }) {
    this.#deps = deps
    this.#replays = logReplays
  }

  /** Reserves a place. Throws AppError `invalid`, `not_found`, `quota_exceeded` or `overloaded`. */
  begin(asked: PolicyBacktestBody, asking: Asking): Promise<RunningReplay<PolicyBacktest>> {
    return this.#replays.begin(asking, async () => {
      const times = this.#timesOf(asked)
      const policy = await this.#policyOf(asked)
      const span = await readSpan(this.#deps, asking.keyId, times, { warmUpMs, mayBeCut: asked.from === undefined })
      return this.#replayOf(new PolicyReplay(policy, asked.tools ?? [], times), times, span)
    })
  }

  #timesOf({ from, to }: PolicyBacktestBody): { from: number; to: number } {
    const now = this.#deps.clock.now()
    const end = to === undefined ? now : Date.parse(to)
    return timesOf({ from: from ?? isoTime(end - defaultSpanMs), ...(to === undefined ? {} : { to }) }, now)
  }

  async #policyOf({ policy, id }: PolicyBacktestBody): Promise<Policy> {
    if ((policy === undefined) === (id === undefined)) {
      throw new AppError('invalid', 'Give either policy (a document or its text) or the id of a stored policy.')
    }
    const stored = id === undefined ? undefined : await findPolicy(this.#deps.database.db, id)
    if (id !== undefined && !stored) throw unknownPolicy(id)
    return readGiven(stored?.text ?? policy!, [], this.#deps.clock.now()).policy
  }

  #replayOf(
    replay: PolicyReplay,
    { from, to }: { from: number; to: number },
    { range, dataFrom }: LogSpan,
  ): Replay<PolicyBacktest> {
    return {
      range,
      withTags: true,
      take: async (events, piece) => {
        const turn = new RuleTurn(this.#deps.clock)
        for (const event of events) {
          replay.take(event)
          if (!turn.isOver()) continue
          await piece.nextTurn()
          turn.begin()
        }
      },
      finish: async ({ eventsRead, durationMs }) => ({
        from: isoTime(from),
        to: isoTime(to),
        data_from: isoTimeOrNull(dataFrom),
        ...replay.result(),
        events_read: eventsRead,
        duration_ms: durationMs(),
      }),
    }
  }
}
