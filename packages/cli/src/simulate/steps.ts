import { type Client, WardlineError } from '@wardline/contract'
import type { DemoAgent } from './agent.ts'
import {
  egressBlocked,
  injectionBlocked,
  injectionDetected,
  policyViolation,
  runawayMetrics,
  usualMetrics,
} from './events.ts'
import { containedRole, type Step } from './story.ts'

/** Decoy of this run. `matched` is undefined until an agent touches it. */
export interface PlantedDecoy {
  id: string
  type: 'api_key' | 'file_path'
  /** The key or the path. */
  value: string
  matched: boolean | undefined
}

export interface Stage {
  agents: DemoAgent[]
  operator: Client
  runId: string
  /** Returns a shell command that suspends an agent. */
  killLine(instanceId: string): string
  decoys: PlantedDecoy[]
}

async function plant(stage: Stage, agent: DemoAgent, type: PlantedDecoy['type']): Promise<string> {
  const instanceId = agent.member.id
  // Each run has a different path, because two decoys with the same path would share one alert.
  const path = `/srv/demo-${stage.runId}/.aws/credentials`
  const label = `Demo: planted for ${agent.member.name}`
  const what = type === 'api_key' ? 'key in the environment' : 'credentials file in the work folder'
  try {
    const created = await stage.operator('createHoneypot', {
      body: { instanceId, type, label, ...(type === 'api_key' ? { keyType: 'openai' } : { path }) },
    })
    stage.decoys.push({ id: created.id, type, value: created.key ?? path, matched: undefined })
    return `A decoy is planted: a ${what} of ${agent.member.name}`
  } catch (fault) {
    if (!(fault instanceof WardlineError) || fault.status !== 403) throw fault
    return `No decoy ${what}: this key may not create decoys (it needs scope operator or admin); the run continues without`
  }
}

async function touch(stage: Stage, agent: DemoAgent, type: PlantedDecoy['type']): Promise<string | undefined> {
  const decoy = stage.decoys.find((planted) => planted.type === type)
  if (!decoy) return undefined
  const [tool, deed, args] =
    type === 'api_key'
      ? [
          'shell-exec',
          'uses the decoy key in a shell command',
          {
            command: `curl -s https://api.example/v1/models -H 'Authorization: Bearer ${decoy.value}' | head -c 400`,
          },
        ]
      : [
          'file-read',
          'opens the decoy file by an obfuscated path',
          { path: decoy.value.replace('/.aws/', '/notes/../.aws//') },
        ]
  const denial = await agent.useTool(tool, args)
  decoy.matched = denial === 'decoy'
  const outcome = decoy.matched
    ? 'denied, and the service records a breach'
    : 'NOT DENIED: the service did not recognize the decoy'
  return `${agent.member.name} ${deed} (${tool}): ${outcome}`
}

async function drill({ agents, operator }: Stage): Promise<string> {
  const { selected } = await operator('startDrill', {
    body: { selector: { instances: agents.map(({ member }) => member.id) } },
  })
  return `A drill asks ${selected} agents whether a suspension would reach them: the page Containments shows which agents answered`
}

/** Suspends all agents of a role. Undefined if they are already suspended, for example by an earlier run. */
async function contain({ agents, operator }: Stage): Promise<string | undefined> {
  const instances = agents.filter(({ member }) => member.role === containedRole).map(({ member }) => member.id)
  const request = { action: 'suspend', selector: { instances }, reason: 'Demo: a faulty release of this role' } as const
  const plan = await operator('createContainment', { body: { ...request, dry_run: true } })
  if (!('dry_run' in plan) || plan.agents === 0) return undefined
  await operator('createContainment', { body: { ...request, confirm: plan.confirm } })
  return `Every ${containedRole.name} is suspended at once: the page Containments shows which agents confirmed, and which are proven stopped`
}

async function perform(step: Step, agent: DemoAgent, stage: Stage): Promise<string | undefined> {
  const { name, role, id } = agent.member
  switch (step.kind) {
    case 'plant_key':
      return plant(stage, agent, 'api_key')
    case 'plant_path':
      return plant(stage, agent, 'file_path')
    case 'use_key':
      return touch(stage, agent, 'api_key')
    case 'touch_path':
      return touch(stage, agent, 'file_path')
    case 'usual_metrics':
      await agent.report(usualMetrics(agent.random, role))
      return undefined
    case 'runaway_metrics':
      await agent.report(runawayMetrics(agent.random, role))
      return undefined
    case 'runaway':
      await agent.report(runawayMetrics(agent.random, role))
      return `${name} runs away: hundreds of tool calls in its session metrics`
    case 'injection':
      await agent.report(injectionDetected())
      await agent.report(injectionBlocked())
      return `${name} meets a prompt injection: detected and blocked`
    case 'egress_blocked':
      await agent.report(egressBlocked(agent.random))
      return `${name} requests a host that is not allowed: blocked`
    case 'policy_violation':
      await agent.report(policyViolation(agent.random))
      return `${name} breaks a policy`
    case 'kill_hint':
      return `Suspend ${name} yourself:\n  ${stage.killLine(id)}`
    case 'drill':
      return drill(stage)
    case 'contain':
      return contain(stage)
  }
}

const byPeople = new Set<Step['kind']>(['plant_key', 'plant_path', 'kill_hint', 'drill', 'contain'])
const unlogged = new Set<Step['kind']>(['usual_metrics', 'runaway_metrics'])

/**
 * Plays one step and returns a line to print, if any. An agent that an operator stopped does not act. A failed request
 * is returned, not thrown.
 */
export async function playStep(step: Step, stage: Stage): Promise<string | undefined> {
  const agent = stage.agents[step.agent]!
  if (agent.isSuspended() && !byPeople.has(step.kind)) {
    return unlogged.has(step.kind) ? undefined : `${agent.member.name} is suspended and skips its part`
  }
  try {
    return await perform(step, agent, stage)
  } catch (fault) {
    if (!(fault instanceof WardlineError)) throw fault
    return `${agent.member.name}, ${step.kind}: ${fault.message}`
  }
}
