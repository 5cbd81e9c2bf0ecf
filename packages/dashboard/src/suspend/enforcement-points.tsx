import { useQuery } from '@tanstack/react-query'
import type { ContainmentAction, EnforcementPoint } from '@wardline/contract'
import { matchesPattern } from '@wardline/text/pattern'
import { HostileText } from '../parts/hostile-text.tsx'
import { sentenceOf } from '../service/client.ts'
import { pointsQuery } from '../service/containments.ts'
import type { Agent } from '../service/fleet.ts'
import { ReachLine } from './reach-line.tsx'

type Scope = Pick<EnforcementPoint, 'instances' | 'tags'>

/** Whether the enforcement point is called for the agent. */
function isCalledFor({ instances, tags }: Scope, agent: Pick<Agent, 'id' | 'tags'>): boolean {
  if (instances) return instances.some((pattern) => matchesPattern(pattern, agent.id))
  return !tags || tags.some((pattern) => agent.tags.some((tag) => matchesPattern(pattern, tag)))
}

function scopeText({ instances, tags }: Scope): string {
  if (instances) return ` for the ids ${instances.join(', ')}`
  return tags ? ` for the tags ${tags.join(', ')}` : ''
}

interface EnforcementPointsProps {
  action: ContainmentAction
  /** Undefined for a fleet: each point is listed with the agents that it is called for. */
  agent?: Pick<Agent, 'id' | 'tags'>
}

/** Lists the enforcement points that will be called. */
export function EnforcementPoints({ action, agent }: EnforcementPointsProps) {
  const { data: points = [], error } = useQuery(pointsQuery)
  if (error) {
    return (
      <li className="fault">
        <HostileText text={`Enforcement points: ${sentenceOf(error)}`} max={600} />
      </li>
    )
  }
  return points
    .filter((point) => point.actions.includes(action) && (!agent || isCalledFor(point, agent)))
    .map((point) => (
      <li key={point.name}>
        <ReachLine
          isReached={point.health !== 'failing'}
          otherwise="May not be reached"
          what={`Enforcement point ${point.name} (${point.host})`}
          how={
            point.health === 'failing'
              ? `called${agent ? '' : scopeText(point)}; its last call failed`
              : `called${agent ? '' : scopeText(point)} until it confirms`
          }
        />
      </li>
    ))
}
