import {
  egressBlocked,
  injectionBlocked,
  injectionDetected,
  policyViolation,
  runawayMetrics,
  usualMetrics,
} from '../simulate/events.ts'
import { between, pick } from '../simulate/random.ts'
import { callsOf, pickCall, type SimulatedCall } from '../simulate/tool-calls.ts'
import { refunds } from './approvals.ts'
import { decoyIncident } from './incident.ts'
import type { Act, PastAgent, PastFleet } from './past-fleet.ts'
import { isAtWork, timeAtWork, workload } from './working-hours.ts'

const secondMs = 1_000
const minuteMs = 60 * secondMs
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** Days of a pilot before the day that is shown: rules that ask what is new need a week. */
export const pilotDays = 8
/** Between two looks of an agent at its work. */
const workMinutes = [7, 14] as const
const sessionMinutes = [25, 80] as const
const metricsMinutes = 15

const teams: Readonly<Record<string, string>> = {
  support: 'team:support',
  mail: 'team:support',
  coding: 'team:platform',
  operations: 'team:platform',
  research: 'team:insights',
  analytics: 'team:insights',
  finance: 'team:payments',
}

interface Day {
  from: number
  to: number
}

/** Calls of an agent that it makes in the shown day for the first time. */
const firstCalls: Readonly<Record<string, SimulatedCall>> = {
  'demo-billing-assistant-1': {
    toolName: 'shell-exec',
    doing: 'Counted the open invoices in a shell',
    params: { command: 'psql -c "select count(*) from invoices"' },
  },
  'demo-research-agent-1': {
    toolName: 'http-request',
    doing: 'Fetched a data set',
    params: { method: 'GET', url: 'https://datasets.example/recycling-2026.csv' },
  },
  'demo-support-bot-2': {
    toolName: 'http-request',
    doing: 'Asked a partner for a status',
    params: { method: 'GET', url: 'https://partner-portal.example/api/parcels/88213' },
  },
  'demo-deploy-helper-1': {
    toolName: 'http-request',
    doing: 'Listed images of a mirror',
    params: { method: 'GET', url: 'https://mirror.registry.example/v2/_catalog' },
  },
}

/** What an agent knows from the pilot: everything but its first calls of the shown day. */
function knownCalls({ member: { id, role } }: PastAgent): SimulatedCall[] {
  const first = firstCalls[id]
  return callsOf(role).filter(({ toolName }) => first?.toolName !== 'shell-exec' || toolName !== 'shell-exec')
}

function metricsOf(agent: PastAgent) {
  return usualMetrics(agent.random, agent.member.role)
}

/** Short working days of the whole fleet. In the first one the agents register and make each of their calls once. */
function pilot(fleet: PastFleet, end: number): Act[] {
  const { agents, operator } = fleet
  const acts: Act[] = []
  for (let day = pilotDays + 1; day > 1; day--) {
    const begin = end - day * dayMs
    const isFirst = day === pilotDays + 1
    acts.push({
      at: begin,
      async run() {
        for (const agent of agents) {
          if (isFirst) fleet.start(agent)
          else fleet.beginSession(agent)
        }
        await fleet.beat(agents)
        if (!isFirst) return
        for (const { member } of agents) {
          const tags = ['demo', teams[member.role.agentType]!]
          await operator('setInstanceTags', { params: { instanceId: member.id }, body: { tags } })
        }
      },
    })
    for (const agent of agents) {
      for (let look = 1; look <= 2; look++) {
        const at = begin + look * 80 * minuteMs + between(agent.random, 0, 20 * minuteMs)
        const known = knownCalls(agent)
        const calls = isFirst
          ? known.filter((_, index) => index % 2 === look - 1)
          : [pick(agent.random, known), pick(agent.random, known)]
        acts.push({ at, run: () => fleet.report(agent, [...fleet.calls(agent, calls), metricsOf(agent)]) })
      }
    }
    acts.push({
      at: begin + 4 * hourMs,
      async run() {
        await fleet.beat(agents, day === 2)
      },
    })
  }
  return acts
}

/** The usual work of an agent: calls, metrics, and now and then something that was blocked. */
function work(fleet: PastFleet, agent: PastAgent, { from, to }: Day): Act[] {
  const { member, random } = agent
  const { role } = member
  const acts: Act[] = []
  let sessionEnds = 0
  let metricsAt = 0
  for (let at = from + between(random, 0, 10 * minuteMs); at < to; ) {
    if (isAtWork(member, at)) {
      const isNewSession = at > sessionEnds
      if (isNewSession) sessionEnds = at + between(random, ...sessionMinutes) * minuteMs
      const isMetrics = at > metricsAt
      if (isMetrics) metricsAt = at + metricsMinutes * minuteMs
      const calls = Array.from({ length: Math.ceil(between(random, 1, 7)) }, () => pickCall(random, role))
      const known = knownCalls(agent)
      const usual = calls.filter((call) => known.includes(call))
      const chance = random()
      const trouble =
        chance < 0.006
          ? [egressBlocked(random)]
          : chance < 0.012
            ? [policyViolation(random)]
            : chance < 0.015
              ? [injectionDetected(), injectionBlocked()]
              : []
      acts.push({
        at,
        async run() {
          if (isNewSession) fleet.beginSession(agent)
          const metrics = isMetrics ? [metricsOf(agent)] : []
          await fleet.report(agent, [...fleet.calls(agent, usual), ...trouble, ...metrics])
        },
      })
    }
    at += (between(random, ...workMinutes) * minuteMs) / workload(at)
  }
  return acts
}

/** An agent repeats itself for a minute: the rules see it, and so do the baselines. */
function runaway(fleet: PastFleet, agent: PastAgent, at: number): Act[] {
  const call = callsOf(agent.member.role).find(({ toolName }) => toolName === 'code-exec')!
  const loop = Array.from({ length: 8 }, (_, index) => ({
    at: at + index * 6.5 * secondMs,
    run: () =>
      fleet.report(
        agent,
        fleet.calls(
          agent,
          Array.from({ length: 9 }, () => call),
        ),
      ),
  }))
  const metrics = [1, 2].map((minute) => ({
    at: at + minute * minuteMs,
    run: () => fleet.report(agent, [runawayMetrics(agent.random, agent.member.role)]),
  }))
  return [...loop, ...metrics]
}

function repeatedViolations(fleet: PastFleet, agent: PastAgent, at: number): Act[] {
  return Array.from({ length: 5 }, (_, index) => ({
    at: at + index * between(agent.random, 60, 110) * secondMs,
    run: () => fleet.report(agent, [policyViolation(agent.random)]),
  }))
}

/** An operator goes through the alerts: what was blocked and did not lead anywhere is resolved. */
function triage({ operator }: PastFleet, at: number, olderThan: number): Act {
  return {
    at,
    async run() {
      const { alerts } = await operator('listAlerts', { query: { status: 'open', limit: '200' } })
      for (const { id, created_at, severity } of alerts) {
        if (severity !== 'warning' || Date.parse(created_at) > olderThan) continue
        const comment = 'Blocked as intended; nothing followed in the session.'
        await operator('changeAlert', {
          params: { id },
          body: { status: 'resolved', verdict: 'false_positive', assignee: 'me', comment },
        })
      }
    },
  }
}

/** What happened until `end`, in order of time. The same fleet of the same seed lives through the same days. */
export function script(fleet: PastFleet, end: number): Act[] {
  const day = { from: end - dayMs, to: end }
  const called = (id: string) => fleet.agents.find(({ member }) => member.id === id)!
  const atWork = (id: string, part: number) => timeAtWork(called(id).member, part, day)
  const firsts = Object.entries(firstCalls).map(([id, call], index): Act => {
    const agent = called(id)
    return { at: atWork(id, 0.35 + index * 0.12), run: () => fleet.report(agent, fleet.calls(agent, [call])) }
  })
  return [
    ...pilot(fleet, end),
    ...fleet.agents.flatMap((agent) => work(fleet, agent, day)),
    ...firsts,
    ...runaway(fleet, called('demo-data-analyst-1'), atWork('demo-data-analyst-1', 0.7)),
    ...repeatedViolations(fleet, called('demo-billing-assistant-2'), atWork('demo-billing-assistant-2', 0.5)),
    ...decoyIncident(fleet, called('demo-inbox-triager-1'), { plantedAt: end - 3 * dayMs, at: end - 6.6 * hourMs }),
    ...refunds(fleet, called('demo-billing-assistant-1'), {
      storedAt: end - 2 * dayMs,
      approvedAt: end - 7.5 * hourMs,
      deniedAt: end - 5.2 * hourMs,
      pendingAt: end - 4 * minuteMs,
    }),
    triage(fleet, end - 2.5 * hourMs, end - 5 * hourMs),
  ].toSorted((one, other) => one.at - other.at)
}
