import { counted } from '@wardline/text/counted'
import type { Agent } from '../data/fleet.ts'
import type { Counts } from '../data/fleet-counts.ts'
import { confirmedAfter } from '../suspend/stages.ts'
import { spanText } from '../ui/span.ts'
import { type AttentionItem, isUnproven } from './attention.ts'

interface VerdictFacts {
  counts: Pick<Counts, 'all' | 'silent' | 'offline' | 'suspended'>
  /** Agents that the items name. */
  agents: readonly Agent[]
  items: readonly AttentionItem[]
  /** Number of problems that are not among the items. */
  omitted?: number
  /** Age of the oldest data that the verdict is based on. */
  ageMs: number
}

/** Older data does not describe the current state. */
export const staleAfterMs = 10_000

const agentsOf = (items: readonly AttentionItem[]) => [
  ...new Set(items.flatMap(({ agentId, agentIds = agentId ? [agentId] : [] }) => agentIds)),
]
const isUnnamed = ({ agents = 0, agentIds }: AttentionItem) => agentIds !== undefined && agentIds.length < agents
/** "more than 12 agents", where an item names only some of its agents. */
const agentsText = (items: readonly AttentionItem[], isMore = items.some(isUnnamed)) =>
  `${isMore ? 'more than ' : ''}${counted(agentsOf(items).length, 'agent')}`
const capitalized = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)

/** "1 is", "all are" */
const who = (count: number, of: number, one: string, several: string) =>
  count === 1 ? `1 ${one}` : `${count < of ? count.toLocaleString('en') : of === 2 ? 'both' : 'all'} ${several}`

function breachSentence(items: readonly AttentionItem[], fleet: readonly Agent[]): string {
  const ids = agentsOf(items)
  if (ids.length > 1) {
    const named = new Set(ids)
    const known = fleet.filter(({ id }) => named.has(id))
    const working = known.filter(({ status }) => status === 'active').length
    const unproven = known.filter(isUnproven).length
    const rest =
      working > 0
        ? who(working, ids.length, 'is still working', 'are still working')
        : unproven > 0
          ? who(unproven, ids.length, 'has not confirmed its suspension', 'have not confirmed their suspension')
          : 'none is still working'
    const what = items.length === 1 ? items[0]!.headline : capitalized(`${agentsText(items)} reported breaches`)
    return `${what}; ${rest}.`
  }
  const { headline } = items[0]!
  const agent = items.find(({ agentId }) => agentId !== undefined)?.agent
  if (!agent) return `${headline}.`
  const and = headline.startsWith(`${agent.id} `) ? ' and' : `; ${agent.id}`
  if (agent.status === 'active') return `${headline}${and} is still working.`
  if (agent.status === 'offline') return `${headline}${and} is silent now.`
  if (isUnproven(agent)) return unconfirmedSentence(items[0]!)
  const after = confirmedAfter(agent)
  return after === undefined
    ? `${headline}${and} is suspended.`
    : `${headline}. Suspended, confirmed after ${after.toLocaleString('en')} ms.`
}

/** A problem of an agent, and that its suspension is not confirmed. */
function unconfirmedSentence({ headline, agent, agentId }: AttentionItem): string {
  const isViolated = agent?.suspension?.state === 'violated'
  const what = isViolated ? 'was active although suspended' : 'has not confirmed its suspension'
  return headline.startsWith(`${agentId} `) ? `${headline} and ${what}.` : `${headline}; ${agentId} ${what}.`
}

/** Returns the headline of the overview, which agrees with the first item: what happened, to whom, whether it is over. */
export function verdictOf({ counts, agents, items, omitted = 0, ageMs }: VerdictFacts): string {
  if (ageMs > staleAfterMs) return `No answer from the service for ${spanText(ageMs)}.`
  if (counts.all === 0) return 'No agent has reported yet.'
  const [first] = items
  const of = (kind: AttentionItem['kind']) => items.filter((item) => item.kind === kind)
  if (first?.kind === 'unconfirmed') {
    const waiting = of('unconfirmed').reduce((sum, { agents = 1 }) => sum + agents, 0)
    return waiting > 1 ? `${counted(waiting, 'agent')} have not confirmed their suspension.` : `${first.headline}.`
  }
  if (first?.kind === 'containment' || first?.kind === 'brake') return `${first.headline}.`
  if (first?.kind === 'breach') return breachSentence(of('breach'), agents)
  if (first?.kind === 'critical') {
    const critical = of('critical')
    if (critical.length === 1 && omitted === 0)
      return isUnproven(first.agent) ? unconfirmedSentence(first) : `${first.headline}.`
    const named = agentsOf(critical).length
    const whose = named > 0 ? ` of ${agentsText(critical, omitted > 0 || critical.some(isUnnamed))}` : ''
    return `${counted(critical.length + omitted, 'critical problem')}${whose} in 24 h.`
  }
  const { silent, offline, suspended, all } = counts
  if (silent > 0)
    return silent === all
      ? 'Every agent is silent.'
      : `${silent.toLocaleString('en')} of ${counted(all, 'agent')} ${silent === 1 ? 'is' : 'are'} silent.`
  if (suspended === all) return 'Every agent is suspended.'
  const working = all - suspended - offline
  if (working === 0) return 'No agent is active.'
  if (working < all) {
    const well = `${counted(working, 'agent')} ${working === 1 ? 'is' : 'are'}`
    const others = [
      suspended > 0 ? `${suspended.toLocaleString('en')} ${suspended === 1 ? 'is' : 'are'} suspended` : [],
      offline > 0 ? `${offline.toLocaleString('en')} ${offline === 1 ? 'is' : 'are'} offline` : [],
    ]
    return `${well} well; ${others.flat().join(', ')}.`
  }
  return all === 1 ? 'The only agent is well.' : `All ${all.toLocaleString('en')} agents are well.`
}
