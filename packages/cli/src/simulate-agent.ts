import { setTimeout as pause } from 'node:timers/promises'
import {
  type Client,
  type ControlMessage,
  heartbeatIntervalSeconds,
  type NewEvent,
  type Severity,
  WardlineError,
} from '@wardline/contract'
import { followControl } from './simulate-control.ts'
import { demoEvent, egressBlocked, policyViolation, toolCall, usualMetrics } from './simulate-events.ts'
import { between, type Random } from './simulate-random.ts'
import type { CastMember } from './simulate-story.ts'

const metricsEverySeconds = 5
/** Between two tool calls of one agent. */
const thinkingSeconds = [2, 6] as const
/** Share of the tool calls that end in an incident: about one in ten seconds for twenty agents at speed 1. */
const egressShare = 0.01
const violationShare = 0.008

export interface Counts {
  heartbeats: number
  events: Record<Severity, number>
}

export interface AgentOptions {
  member: CastMember
  /** Names this start of the agent. */
  runId: string
  random: Random
  speed: number
  url: string
  key: string
  call: Client
  counts: Counts
  signal: AbortSignal
  say(line: string): void
}

export type DemoReport = Parameters<typeof demoEvent>[2]

export interface DemoAgent {
  member: CastMember
  random: Random
  isSuspended(): boolean
  beat(): Promise<void>
  report(report: DemoReport): Promise<void>
  /** Works until the signal is aborted. */
  live(): Promise<void>
}

/** One agent that obeys the kill switch: suspended, it only sends heartbeats until an operator resumes it. */
export function createAgent(options: AgentOptions): DemoAgent {
  const { member, runId, random, speed, url, key, call, counts, signal, say } = options
  const sessionId = `${member.id}-${runId}`
  let suspended = false
  let appliedVersion = 0

  async function beat(): Promise<void> {
    await call('sendHeartbeat', {
      body: {
        instance_id: member.id,
        name: member.name,
        agent_type: member.role.agentType,
        version: member.role.version,
        control_version: appliedVersion,
        fail_mode: 'closed',
        boot_id: runId,
      },
    })
    counts.heartbeats++
  }

  async function report(content: DemoReport): Promise<void> {
    const event: NewEvent = demoEvent(member, sessionId, content)
    await call('createEvent', { body: event })
    counts.events[event.severity]++
  }

  function nextDeed(): DemoReport {
    const chance = random()
    if (chance < egressShare) return egressBlocked(random)
    if (chance < egressShare + violationShare) return policyViolation(random)
    return toolCall(random, member.role)
  }

  /** Does it again and again, the first time after part of an interval, so that the fleet does not act in step. */
  async function repeat(intervalSeconds: () => number, act: () => Promise<void>): Promise<void> {
    let seconds = intervalSeconds() * random()
    while (!signal.aborted) {
      try {
        await pause((seconds * 1_000) / speed, undefined, { signal })
        await act()
      } catch (fault) {
        if (!signal.aborted && !(fault instanceof WardlineError)) throw fault
      }
      seconds = intervalSeconds()
    }
  }

  const unlessSuspended = (act: () => Promise<void>) => async () => {
    if (!suspended) await act()
  }

  async function obey({ action, reason, version }: ControlMessage): Promise<void> {
    // The state at the start is version 0 of an instance that nobody ever stopped.
    if (version <= appliedVersion) return
    const was = suspended
    suspended = action === 'suspend'
    // If this fails, the stream is opened again and brings the same state, which is then confirmed.
    await call('acknowledgeControl', { params: { instanceId: member.id }, body: { version } })
    appliedVersion = version
    if (suspended) say(`${member.name} is stopped by an operator: ${reason ?? ''} (confirmed, version ${version})`)
    else if (was) say(`${member.name} is resumed and works again (confirmed, version ${version})`)
  }

  return {
    member,
    random,
    isSuspended: () => suspended,
    beat,
    report,
    live: async () => {
      await Promise.all([
        repeat(() => heartbeatIntervalSeconds, beat),
        repeat(
          () => between(random, ...thinkingSeconds),
          unlessSuspended(() => report(nextDeed())),
        ),
        repeat(
          () => metricsEverySeconds,
          unlessSuspended(() => report(usualMetrics(random, member.role))),
        ),
        followControl({ url, key, instanceId: member.id, signal, onMessage: obey }),
      ])
    },
  }
}
