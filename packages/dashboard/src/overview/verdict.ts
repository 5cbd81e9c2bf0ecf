import { counted } from '@wardline/text/counted'
import type { Agent } from '../data/fleet.ts'
import { countsOf } from '../data/fleet-counts.ts'
import { confirmedAfter } from '../suspend/stages.ts'
import { spanText } from '../ui/span.ts'
import type { AttentionItem } from './attention.ts'

interface VerdictFacts {
  fleet: readonly Agent[]
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

function breachSentence(items: readonly AttentionItem[], fleet: readonly Agent[]): string {
  const ids = agentsOf(items)
  if (ids.length > 1) {
    const active = new Set(fleet.filter(({ status }) => status === 'active').map(({ id }) => id))
    const working = ids.filter((id) => active.has(id)).length
    const who = working === ids.length ? (ids.length === 2 ? 'both' : 'all') : working.toLocaleString('en')
    const rest = working === 0 ? 'none is still working' : `${who} ${who === '1' ? 'is' : 'are'} still working`
    const what = items.length === 1 ? items[0]!.headline : capitalized(`${agentsText(items)} reported breaches`)
    return `${what}; ${rest}.`
  }
  const { headline } = items[0]!
  const agent = items.find(({ agentId }) => agentId !== undefined)?.agent
  if (!agent) return `${headline}.`
  const and = headline.startsWith(`${agent.id} `) ? ' and' : `; ${agent.id}`
  if (agent.status === 'active') return `${headline}${and} is still working.`
  if (agent.status === 'offline') return `${headline}${and} is silent now.`
  const after = confirmedAfter(agent)
  return after === undefined
    ? `${headline}${and} is suspended.`
    : `${headline}. Suspended, confirmed after ${after.toLocaleString('en')} ms.`
}

const isSuspended = ({ agent, running }: AttentionItem) =>
  running === undefined ? agent?.status === 'suspended' : running.length === 0

/** Returns the headline of the overview: what happened, to which agent, and whether it is over. */
export function verdictOf({ fleet, items, omitted = 0, ageMs }: VerdictFacts): string {
  if (ageMs > staleAfterMs) return `No answer from the service for ${spanText(ageMs)}.`
  if (fleet.length === 0) return 'No agent has reported yet.'
  const of = (kind: AttentionItem['kind']) => items.filter((item) => item.kind === kind)
  const [unconfirmed, breaches, critical] = [of('unconfirmed'), of('breach'), of('critical')]
  const waiting = unconfirmed.reduce((sum, { agents = 1 }) => sum + agents, 0)
  if (waiting === 1) return `${unconfirmed[0]!.headline}.`
  if (waiting > 1 && of('containment').length > 0) return `${of('containment')[0]!.headline}.`
  if (waiting > 1) return `${counted(waiting, 'agent')} have not confirmed their suspension.`
  const [brake] = of('brake')
  if (brake && breaches.length === 0) return `${brake.headline}.`
  // An agent that is still working comes before one that is suspended.
  const isContained = critical.length > 0 && breaches.every(isSuspended)
  if (breaches.length > 0 && !isContained) return breachSentence(breaches, fleet)
  if (critical.length === 1 && omitted === 0) return `${critical[0]!.headline}.`
  if (critical.length > 0) {
    const named = agentsOf(critical).length
    const of = named > 0 ? ` of ${agentsText(critical, omitted > 0 || critical.some(isUnnamed))}` : ''
    return `${counted(critical.length + omitted, 'critical problem')}${of} in 24 h.`
  }
  const { silent, offline, suspended, all } = countsOf(fleet)
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
