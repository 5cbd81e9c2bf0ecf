import { type EnforcingLever, offlineAfterMs } from '@wardline/contract'
import { dayMs } from '../../clock.ts'
import { allowedById, type Point } from '../../config/enforcement-points.ts'
import type { ReachColumns } from './queries.ts'
import type { Reach } from './reach-statements.ts'
import { allTags } from './tags.ts'

/** An agent that called no model for longer may call it another way by now. */
export const modelForMs = dayMs

type ReachedAgent = { id: string } & Pick<Reach, 'tags' | 'supervisedAt' | 'modelCalledAt'>

export const reachOf = (row: ReachColumns): ReachedAgent => ({
  id: row.id,
  tags: allTags(row),
  supervisedAt: row.supervised_at,
  modelCalledAt: row.model_called_at,
})

/** Returns the enforcement points that are called when the agent is suspended. */
export const pointsFor = (points: readonly Point[], agent: Pick<ReachedAgent, 'id' | 'tags'>): Point[] =>
  points
    .filter(({ actions }) => actions.includes('suspend'))
    .filter((point) => allowedById(point, [agent]).length > 0)
    .filter(({ tags }) => !tags || tags.some((tag) => agent.tags.includes(tag)))

/** Returns what stops an agent without its cooperation, the strongest first; `called`: the points that `pointsFor` finds. */
export function enforcingLevers(
  agent: Omit<ReachedAgent, 'id' | 'tags'>,
  called: readonly Point[],
  now: number,
): EnforcingLever[] {
  const isSince = (at: number | null, ms: number) => at !== null && now - at <= ms
  const levers: EnforcingLever[] = []
  if (isSince(agent.supervisedAt, offlineAfterMs)) levers.push('process')
  if (isSince(agent.modelCalledAt, modelForMs)) levers.push('model')
  if (called.length > 0) levers.push('enforcement')
  return levers
}
