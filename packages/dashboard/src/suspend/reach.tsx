import { useQuery } from '@tanstack/react-query'
import type { ContainmentAction, EnforcementPoint, LeverKind } from '@wardline/contract'
import { matchesPattern } from '@wardline/text/pattern'
import type { ReactNode } from 'react'
import { pointsQuery } from '../data/containments.ts'
import { type Agent, type AgentDetail, agentQuery } from '../data/fleet.ts'
import { useIsLimited } from '../data/session.ts'
import { Fault } from '../ui/panel.tsx'
import css from './suspend.module.css'

interface ReachItemProps {
  isReached?: boolean
  /** Whether that is simply not known yet, and nothing speaks against it. */
  isUnknown?: boolean
  what: string
  how: string
  /** Text for screen readers while it is not reached. */
  otherwise?: string
  /** Content below the line. */
  children?: ReactNode
}

/** One thing that a suspension reaches, or does not. */
export function ReachItem(props: ReachItemProps) {
  const { isReached = false, isUnknown = false, what, how, otherwise = 'Not reached', children } = props
  const [tone, mark] = isReached ? ['ok', '✓'] : isUnknown ? ['quiet', '○'] : ['warning', '▲']
  return (
    <li>
      <span className={tone} aria-hidden="true">
        {mark}
      </span>
      <span>
        {!isUnknown && <span className="only-read">{isReached ? 'Reached' : otherwise}: </span>}
        {what}
      </span>
      <span className="quiet">{how}</span>
      {children}
    </li>
  )
}

export function ReachList({ children }: { children: ReactNode }) {
  return (
    <ul className={css.reach} aria-label="What this reaches">
      {children}
    </ul>
  )
}

type Scope = Pick<EnforcementPoint, 'instances' | 'tags'>

/** Whether the enforcement point is called for the agent. */
function isCalledFor({ instances, tags }: Scope, agent: Pick<Agent, 'id' | 'tags'>): boolean {
  if (instances) return instances.some((pattern) => matchesPattern(pattern, agent.id))
  return !tags || tags.some((pattern) => agent.tags.some((tag) => matchesPattern(pattern, tag)))
}

function scopeText({ instances, tags }: Scope): string {
  if (instances) return ` for ids ${instances.join(', ')}`
  return tags ? ` for tags ${tags.join(', ')}` : ''
}

interface EnforcementPointsProps {
  action: ContainmentAction
  /** Undefined for a fleet: each point is listed with the agents that it is called for. */
  agent?: Pick<Agent, 'id' | 'tags'>
}

/** Lists the enforcement points that will be called. */
export function EnforcementPoints({ action, agent }: EnforcementPointsProps) {
  const isLimited = useIsLimited()
  const { data: points = [], error } = useQuery({ ...pointsQuery, enabled: !isLimited })
  if (isLimited) return <li className="quiet">Enforcement points, if any, are called too.</li>
  if (error) {
    return (
      <li>
        <Fault of={`Enforcement points: ${error.message}`} />
      </li>
    )
  }
  return points
    .filter((point) => point.actions.includes(action) && (!agent || isCalledFor(point, agent)))
    .map((point) => (
      <ReachItem
        key={point.name}
        isReached={point.health !== 'failing'}
        otherwise="May not be reached"
        what={`Enforcement point ${point.name} (${point.host})`}
        how={`called${agent ? '' : scopeText(point)}, ${point.health === 'failing' ? 'last call failed' : 'retried until it confirms'}`}
      />
    ))
}

/** What levers outside the agent hold. */
function heldOutside(levers: AgentDetail['levers']): ReachItemProps[] {
  const held: Partial<Record<LeverKind, [what: string, how: string]>> = {
    process: ['Its processes, running commands included', 'held by its supervisor'],
    model: ['Its calls of models', 'refused and cut by the gateway'],
  }
  return levers.flatMap(({ kind, last_proven_at }) => {
    const [what, how] = held[kind] ?? []
    if (what === undefined) return []
    return [{ what, how: `${how}${last_proven_at === null ? ', not proven yet' : ''}`, isReached: true }]
  })
}

/** What the agent's own client stops, if it has one. */
function stoppedByItself({ status, control, levers }: AgentDetail): ReachItemProps {
  if (!levers.some(({ kind }) => kind === 'poll')) {
    return {
      what: 'The agent itself',
      how: 'only its telemetry is heard: it never asks whether it is suspended',
    }
  }
  const isKnown = control.applied_version !== null
  const isMissed = !control.confirmed
  return {
    what: 'New tool calls and tasks guarded by its SDK',
    how: isMissed
      ? 'this agent has not confirmed the last control message'
      : isKnown
        ? 'this agent confirms control messages'
        : 'no control message was sent to this agent yet; this dialog shows when it confirms',
    isReached: isKnown && !isMissed && status !== 'offline',
    isUnknown: !isKnown && !isMissed && status !== 'offline',
  }
}

/** What suspending an agent reaches and what it does not: what holds it, and what it reports. */
function reachOf(agent: AgentDetail): ReachItemProps[] {
  const { status, fail_mode, levers, descendants } = agent
  const isHeld = levers.some(({ kind }) => kind === 'process')
  const isOffline = status === 'offline'
  return [
    ...heldOutside(levers),
    stoppedByItself(agent),
    ...(descendants > 0
      ? [{ what: `Agents that it started: ${descendants}`, how: 'suspended with it', isReached: true }]
      : []),
    ...(isOffline ? [{ what: 'Work while it is offline', how: 'the suspension applies when it reconnects' }] : []),
    ...(isHeld ? [] : [{ what: 'A command that is running already', how: 'not reached: end it on its host' }]),
    { what: 'Keys and tokens held by the agent', how: 'not revoked by Wardline' },
    ...(fail_mode === 'open'
      ? [
          {
            what: 'Work while it cannot reach the service',
            how: 'this agent fails open: it continues until it receives the suspension',
          },
        ]
      : []),
  ]
}

/** What suspending this agent reaches. */
export function AgentReach({ id }: { id: string }) {
  const { data } = useQuery(agentQuery(id))
  if (!data) return <p className="quiet">Loading agent details…</p>
  return (
    <ReachList>
      {reachOf(data).map((item) => (
        <ReachItem key={item.what} {...item} />
      ))}
      <EnforcementPoints action="suspend" agent={data} />
    </ReachList>
  )
}
