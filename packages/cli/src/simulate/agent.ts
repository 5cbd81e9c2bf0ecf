import { setTimeout as pause } from 'node:timers/promises'
import { heartbeatIntervalSeconds, type Severity } from '@wardline/contract'
import { createMonitor, type DenialCode, type MonitorError, type Report } from '@wardline/sdk'
import { demoReport, egressBlocked, policyViolation, usualMetrics } from './events.ts'
import { between, type Random } from './random.ts'
import type { CastMember } from './story.ts'
import { callReport, pickCall } from './tool-calls.ts'

/** How often an agent acts. */
export interface Pace {
  /** Minimum and maximum between two tool calls. */
  thinkingSeconds: readonly [min: number, max: number]
  metricsEverySeconds: number
}

/** For a run of a minute. */
export const briskPace: Pace = { thinkingSeconds: [2, 6], metricsEverySeconds: 5 }
/** For hours. Brisk agents would report more in a few minutes than they did in the whole day of a demo's history. */
export const steadyPace: Pace = { thinkingSeconds: [20, 60], metricsEverySeconds: 120 }
/** Shares of actions that are incidents: together about one in ten seconds for 20 brisk agents at speed 1. */
const egressShare = 0.01
const violationShare = 0.008
/** Longer than the default, because hundreds of agents on one machine get slower responses than one agent. */
const checkTimeoutMs = 15_000

interface AgentOptions {
  member: CastMember
  /** Distinguishes the sessions of different runs. */
  runId: string
  random: Random
  speed: number
  pace: Pace
  url: string
  key: string
  /** Stored events of the whole fleet. */
  stored: Record<Severity, number>
  signal: AbortSignal
  say(line: string): void
  onTrouble(error: MonitorError): void
}

export interface DemoAgent {
  member: CastMember
  random: Random
  isSuspended(): boolean
  /** Whether the service has ever responded to this agent. */
  hasContact(): boolean
  /** Registers the agent and opens its control stream. */
  start(): Promise<void>
  /** Resolves when the event is stored, or after the timeout of flush(). */
  report(report: Report): Promise<void>
  /** Calls a tool with these arguments. Resolves with the reason if the call was denied. */
  useTool(toolName: string, args: object): Promise<DenialCode | undefined>
  /** Runs until the signal is aborted. */
  live(): Promise<void>
  stop(): Promise<void>
}

/**
 * Creates an agent with the SDK, like a user's agent. The SDK sends heartbeats in real time, so a run with a higher
 * speed sends more by refresh(). Throws TypeError if the SDK does not accept the address or the key.
 */
export function createAgent(options: AgentOptions): DemoAgent {
  const { member, runId, random, speed, pace, url, key, stored, signal, say, onTrouble } = options
  const { id, name, role } = member
  const { agentType, version } = role
  const sessionId = `${id}-${runId}`
  const monitor = createMonitor({
    url,
    key,
    instanceId: id,
    name,
    agentType,
    version,
    failMode: 'closed',
    checkTimeoutMs,
  })
  monitor.on('error', onTrouble)
  monitor.on('suspend', (change) =>
    say(
      change.version === undefined
        ? `${name} suspends itself: ${change.reason}`
        : `${name} was suspended by an operator: ${change.reason} (control version ${change.version})`,
    ),
  )
  monitor.on('resume', (change) =>
    say(
      change.version === undefined
        ? `${name} reached the service again and continues`
        : `${name} is resumed and continues (control version ${change.version})`,
    ),
  )

  let unsettled: Severity[] = []
  let dropped = 0

  async function report(content: Report): Promise<void> {
    unsettled.push(content.severity)
    void monitor.report(demoReport(sessionId, content))
    if (await monitor.flush()) settle()
  }

  /** Counts the reported events as stored, once the queue is empty. */
  function settle(): void {
    const { droppedEvents } = monitor.health
    // If events were dropped, none are counted, because the SDK does not report which ones.
    if (droppedEvents === dropped) for (const severity of unsettled) stored[severity]++
    dropped = droppedEvents
    unsettled = []
  }

  /** Repeats an action. The first delay is a random part of the interval, so that agents do not act in step. */
  async function repeat(intervalSeconds: () => number, act: () => Promise<unknown>): Promise<void> {
    let seconds = intervalSeconds() * random()
    while (!signal.aborted) {
      await pause((seconds * 1_000) / speed, undefined, { signal }).catch(() => {})
      if (!signal.aborted) await act()
      seconds = intervalSeconds()
    }
  }

  async function act(): Promise<void> {
    const chance = random()
    if (monitor.suspended) return
    if (chance < egressShare) return report(egressBlocked(random))
    if (chance < egressShare + violationShare) return report(policyViolation(random))
    const call = pickCall(random, role)
    // Like guardTool(), whose events cannot have the demo tag.
    const denial = await monitor.guard({ toolName: call.toolName, args: call.params, sessionId })
    if (!denial) await report(callReport(random, member, sessionId, call))
  }

  return {
    member,
    random,
    isSuspended: () => monitor.suspended,
    hasContact: () => monitor.health.lastContact !== undefined,
    start: () => monitor.start(),
    report,
    async useTool(toolName, args) {
      // The SDK learns of new decoys with a heartbeat and does not check calls before.
      await monitor.refresh()
      const tool = monitor.guardTool(toolName, async (_args: object) => undefined, { sessionId, onDeny: 'return' })
      return (await tool(args))?.code
    },
    live: async () => {
      const beats =
        speed > 1
          ? [
              repeat(
                () => heartbeatIntervalSeconds,
                () => monitor.refresh(),
              ),
            ]
          : []
      await Promise.all([
        ...beats,
        repeat(() => between(random, ...pace.thinkingSeconds), act),
        repeat(
          () => pace.metricsEverySeconds,
          async () => {
            if (!monitor.suspended) await report(usualMetrics(random, role))
          },
        ),
      ])
    },
    async stop() {
      await monitor.stop()
      if (monitor.health.queuedEvents === 0) settle()
    },
  }
}
