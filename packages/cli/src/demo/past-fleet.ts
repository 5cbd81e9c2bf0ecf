import { randomUUID } from 'node:crypto'
import { type Client, createClient, type Heartbeat } from '@wardline/contract'
import type { Report } from '@wardline/sdk'
import { eventOf } from '@wardline/sdk/events'
import type { UnopenedService } from '@wardline/server'
import { demoReport } from '../simulate/events.ts'
import { type Random, seededRandom } from '../simulate/random.ts'
import { type CastMember, castOf } from '../simulate/story.ts'
import { callReport, type SimulatedCall } from '../simulate/tool-calls.ts'

/** Any address: the requests do not leave the process. */
const url = 'http://127.0.0.1'

/** What an agent or an operator does at a time of the past. */
export interface Act {
  at: number
  run(): Promise<void>
}

/** An agent of the past. It reports as the SDK does, which lives in the present. */
export interface PastAgent {
  member: CastMember
  random: Random
  sessionId: string
  /** The run whose heartbeats it sends. */
  bootId: string
  controlVersion: number
  isSuspended: boolean
}

export interface PastFleet {
  agents: readonly PastAgent[]
  operator: Client
  /** Another caller, by its key. */
  clientOf(key: string): Client
  /** The agent starts again. */
  start(agent: PastAgent): void
  beginSession(agent: PastAgent): void
  beat(agents: readonly PastAgent[], leaving?: boolean): Promise<void>
  /** Stores the reports in one batch. A suspended agent reports nothing. */
  report(agent: PastAgent, reports: readonly Report[]): Promise<void>
  /** What the agent reports after the calls. */
  calls(agent: PastAgent, calls: readonly SimulatedCall[]): Report[]
  /** The agent learns its state, applies it and acknowledges it. */
  obey(agent: PastAgent): Promise<void>
}

export function createPastFleet(
  service: UnopenedService,
  given: { key: string; size: number; seed: number },
): PastFleet {
  const { key, size, seed } = given
  const clientOf = (ofKey: string) => createClient({ url, key: ofKey, send: service.send })
  const operator = clientOf(key)
  const agents = castOf(size).map((member, index): PastAgent => {
    const random = seededRandom(seed + Math.imul(index + 1, 0x85ebca6b))
    return { member, random, sessionId: '', bootId: '', controlVersion: 0, isSuspended: false }
  })

  function heartbeatOf({ member, bootId, controlVersion }: PastAgent, leaving: boolean): Heartbeat {
    const { id, name, role } = member
    return {
      instance_id: id,
      name,
      agent_type: role.agentType,
      version: role.version,
      fail_mode: 'closed',
      boot_id: bootId,
      control_version: controlVersion,
      ...(leaving ? { leaving } : {}),
    }
  }

  const beginSession = (agent: PastAgent): void => {
    agent.sessionId = `${agent.member.id}-${randomUUID().slice(0, 8)}`
  }

  return {
    agents,
    operator,
    clientOf,
    beginSession,

    start(agent) {
      agent.bootId = randomUUID()
      beginSession(agent)
    },

    async beat(beating, leaving = false) {
      await service.beat(
        beating.map((agent) => heartbeatOf(agent, leaving)),
        key,
      )
    },

    async report({ member, sessionId, isSuspended }, reports) {
      if (isSuspended || reports.length === 0) return
      const events = reports.map((report) => eventOf(demoReport(sessionId, report), member.id))
      const answer = await service.send(new URL('/api/events/batch', url), {
        method: 'POST',
        headers: { 'x-monitor-key': key, 'content-type': 'application/json' },
        body: JSON.stringify(events),
        signal: AbortSignal.timeout(60_000),
      })
      if (answer.status !== 200) throw new Error(`A batch of events was refused (${answer.status}).`)
    },

    calls: (agent, calls) => calls.map((call) => callReport(agent.random, agent.member, agent.sessionId, call)),

    async obey(agent) {
      const params = { instanceId: agent.member.id }
      // The poll brings the state to the agent; its version is in the header of the answer only.
      await operator('getInstanceStatus', { params })
      const { status, control } = await operator('getInstance', { params })
      agent.controlVersion = control.version
      agent.isSuspended = status === 'suspended'
      await operator('acknowledgeControl', { params, body: { version: control.version } })
    },
  }
}
