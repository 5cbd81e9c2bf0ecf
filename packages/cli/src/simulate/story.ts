import type { KnownTool } from '@wardline/contract'
import { seededRandom, shuffled } from './random.ts'

/** Kind of agent. Its usual metrics are constant, so that a run is no anomaly compared with the previous one. */
export interface Role {
  name: string
  agentType: string
  version: string
  tools: readonly KnownTool[]
  usual: { toolCalls: number; uniqueTools: number; answerLength: number; shellCalls: number; httpRequests: number }
}

export interface CastMember {
  /** Instance id; begins with `demo-`. */
  id: string
  name: string
  role: Role
}

type StepKind =
  | 'plant_key'
  | 'plant_path'
  | 'usual_metrics'
  | 'injection'
  | 'egress_blocked'
  | 'policy_violation'
  | 'touch_path'
  | 'use_key'
  | 'runaway'
  | 'runaway_metrics'
  | 'kill_hint'
  | 'drill'
  | 'contain'

export interface Step {
  /** Seconds after all agents have connected, at speed 1. */
  atSeconds: number
  kind: StepKind
  /** Index in the cast. */
  agent: number
}

interface Story {
  cast: CastMember[]
  /** Sorted by time. */
  steps: Step[]
}

export const roles: readonly Role[] = [
  {
    name: 'Support bot',
    agentType: 'support',
    version: '2.4.1',
    tools: ['web-search', 'file-read', 'email-send'],
    usual: { toolCalls: 24, uniqueTools: 3, answerLength: 620, shellCalls: 1, httpRequests: 9 },
  },
  {
    name: 'Code reviewer',
    agentType: 'coding',
    version: '1.9.0',
    tools: ['file-read', 'shell-exec', 'code-exec'],
    usual: { toolCalls: 40, uniqueTools: 4, answerLength: 1_400, shellCalls: 12, httpRequests: 6 },
  },
  {
    name: 'Research agent',
    agentType: 'research',
    version: '3.0.2',
    tools: ['web-search', 'http-request', 'file-read'],
    usual: { toolCalls: 55, uniqueTools: 4, answerLength: 2_100, shellCalls: 2, httpRequests: 38 },
  },
  {
    name: 'Billing assistant',
    agentType: 'finance',
    version: '1.2.7',
    tools: ['http-request', 'file-read', 'email-send'],
    usual: { toolCalls: 18, uniqueTools: 3, answerLength: 480, shellCalls: 1, httpRequests: 14 },
  },
  {
    name: 'Data analyst',
    agentType: 'analytics',
    version: '0.8.3',
    tools: ['code-exec', 'file-read', 'shell-exec'],
    usual: { toolCalls: 32, uniqueTools: 4, answerLength: 900, shellCalls: 8, httpRequests: 5 },
  },
  {
    name: 'Inbox triager',
    agentType: 'mail',
    version: '2.0.0',
    tools: ['email-send', 'web-search', 'file-read'],
    usual: { toolCalls: 28, uniqueTools: 3, answerLength: 350, shellCalls: 1, httpRequests: 4 },
  },
  {
    name: 'Deploy helper',
    agentType: 'operations',
    version: '1.1.4',
    tools: ['shell-exec', 'http-request', 'file-read'],
    usual: { toolCalls: 22, uniqueTools: 4, answerLength: 540, shellCalls: 15, httpRequests: 11 },
  },
]

/** Reports of usual metrics before the runaway. The detector needs ten samples before it reports anything. */
export const usualReports = 12

export function castOf(size: number): CastMember[] {
  return Array.from({ length: size }, (_, index) => {
    const role = roles[index % roles.length]!
    const number = Math.floor(index / roles.length) + 1
    const name = `${role.name} ${number}`
    return { id: `demo-${name.toLowerCase().replaceAll(' ', '-')}`, name, role }
  })
}

/** Role whose agents are suspended in a story with a containment. */
export const containedRole = roles.find(({ name }) => name === 'Deploy helper')!

function byOperator(cast: readonly CastMember[]): Step[] {
  const agent = cast.findIndex(({ role }) => role === containedRole)
  if (agent < 0) return []
  return [
    { atSeconds: 18, kind: 'drill', agent },
    { atSeconds: 19, kind: 'contain', agent },
  ]
}

/**
 * Plans who does what and when, within 20 seconds at speed 1. The same size and seed produce the same story.
 * `isContained`: an operator also runs a drill and suspends the agents of one role.
 */
export function planStory(size: number, seed: number, isContained = false): Story {
  const random = seededRandom(seed)
  const cast = castOf(size)
  const order = shuffled(random, [...cast.keys()])
  // In a small fleet, an agent plays several parts.
  const actor = (part: number) => order[part % order.length]!
  const keyHolder = actor(0)
  const reader = actor(1)
  const runaway = actor(2)
  const middle = shuffled<Omit<Step, 'atSeconds'>>(random, [
    { kind: 'use_key', agent: keyHolder },
    { kind: 'touch_path', agent: reader },
    { kind: 'injection', agent: actor(3) },
    { kind: 'egress_blocked', agent: actor(4) },
    { kind: 'policy_violation', agent: actor(5) },
  ])
  const steps: Step[] = [
    { atSeconds: 0.5, kind: 'plant_key', agent: keyHolder },
    { atSeconds: 1, kind: 'plant_path', agent: reader },
    ...middle.map((step, index) => ({ ...step, atSeconds: 3 + index * 2.2 })),
    ...Array.from({ length: usualReports }, (_, index): Step => {
      return { atSeconds: 1.2 + index * 1.05, kind: 'usual_metrics', agent: runaway }
    }),
    { atSeconds: 14, kind: 'runaway', agent: runaway },
    { atSeconds: 15, kind: 'runaway_metrics', agent: runaway },
    { atSeconds: 16, kind: 'runaway_metrics', agent: runaway },
    { atSeconds: 17.5, kind: 'kill_hint', agent: runaway },
    ...(isContained ? byOperator(cast) : []),
  ]
  return { cast, steps: steps.toSorted((one, other) => one.atSeconds - other.atSeconds) }
}
