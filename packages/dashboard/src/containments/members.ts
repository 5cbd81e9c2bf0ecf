import { type AgentSelector, type Containment, type ContainmentAction, limits } from '@wardline/contract'
import type { Agent } from '../data/fleet.ts'

/** Returns the tags that count, as in the service: a resume does not follow what agents say of themselves. */
const tagsFor = (agent: Agent, action: ContainmentAction | undefined) =>
  action === 'resume' ? agent.operator_tags : agent.tags

/** Returns the agents of the fleet that a selector matches. */
export function selectedOf(
  fleet: readonly Agent[],
  { instances, tags, all }: AgentSelector,
  action?: ContainmentAction,
): Agent[] {
  if (all) return [...fleet]
  if (tags) return fleet.filter((agent) => tags.every((tag) => tagsFor(agent, action).includes(tag)))
  const ids = new Set(instances)
  return fleet.filter(({ id }) => ids.has(id))
}

/** Returns a selector of the agents of a containment, those of its team, and of those that registered while it held. */
export function withJoined(
  { selector, tags_scope: scope, joined }: Pick<Containment, 'selector' | 'tags_scope' | 'joined'>,
  fleet: readonly Agent[],
): AgentSelector {
  const own = scope ? fleet.filter(({ operator_tags }) => operator_tags.some((tag) => scope.includes(tag))) : fleet
  const selected = new Set(selector.instances ?? selectedOf(own, selector).map(({ id }) => id))
  // To callers without the limit, `all` and `tags` would mean agents of other teams too.
  const isSame = scope === null || selector.instances !== undefined
  if (isSame && (selector.all || joined.every((id) => selected.has(id)))) return selector
  return { instances: [...new Set([...selected, ...joined])].slice(0, limits.selectedInstances) }
}

/** Counts the agents per tag, most frequent first. */
export function tagCounts(agents: readonly Agent[], action?: ContainmentAction): [tag: string, count: number][] {
  const counts = new Map<string, number>()
  for (const agent of agents) for (const tag of tagsFor(agent, action)) counts.set(tag, (counts.get(tag) ?? 0) + 1)
  return [...counts].sort(([one, few], [other, many]) => many - few || (one < other ? -1 : 1))
}
