import { setTimeout as pause } from 'node:timers/promises'
import { heartbeatIntervalSeconds, type Severity } from '@wardline/contract'
import { createMonitor, type DenialCode, type MonitorError, type Report } from '@wardline/sdk'
import { demoReport, egressBlocked, policyViolation, toolCall, usualMetrics } from './events.ts'
import { between, type Random } from './random.ts'
import type { CastMember } from './story.ts'

const metricsEverySeconds = 5
/** Between two tool calls of one agent. */
const thinkingSeconds = [2, 6] as const
/** Share of the tool calls that end in an incident: about one in ten seconds for twenty agents at speed 1. */
const egressShare = 0.01
const violationShare = 0.008
/** Hundreds of agents on one machine get their answers later than one agent does. */
const checkTimeoutMs = 15_000

interface AgentOptions {
  member: CastMember
  /** Names this start of the agent. */
  runId: string
  random: Random
  speed: number
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
  /** Whether the service has ever answered for it. */
  hasContact(): boolean
  /** Registers it and opens its control stream. */
  start(): Promise<void>
  /** Resolves when the event is stored, or has waited for as long as flush() does. */
  report(report: Report): Promise<void>
  /** Calls a tool with these arguments; why that was denied, if it was. */
  useTool(toolName: string, args: object): Promise<DenialCode | undefined>
  /** Works until the signal is aborted. */
  live(): Promise<void>
  stop(): Promise<void>
}

/**
 * One agent on the SDK, as users build theirs. The SDK's heartbeats keep their own pace; a run that is faster than life
 * adds some by refresh(). Throws TypeError when the SDK does not accept the address or the key.
 */
export function createAgent(options: AgentOptions): DemoAgent {
  const { member, runId, random, speed, url, key, stored, signal, say, onTrouble } = options
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
        ? `${name} has contact again and works on`
        : `${name} is resumed and works again (control version ${change.version})`,
    ),
  )

  let unsettled: Severity[] = []
  let dropped = 0

  async function report(content: Report): Promise<void> {
    unsettled.push(content.severity)
    void monitor.report(demoReport(sessionId, content))
    if (await monitor.flush()) settle()
  }

  /** Counts what was reported as stored, once nothing waits any more. */
  function settle(): void {
    const { droppedEvents } = monitor.health
    // Of what was lost, nothing says which events those were.
    if (droppedEvents === dropped) for (const severity of unsettled) stored[severity]++
    dropped = droppedEvents
    unsettled = []
  }

  /** Does it again and again, the first time after part of an interval, so that the fleet does not act in step. */
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
    const { toolName, event } = toolCall(random, role)
    // As guardTool() does; but the events of a demo are tagged, and those of guardTool() cannot be.
    const denial = await monitor.guard({ toolName, args: { task: event.description }, sessionId })
    if (!denial) await report(event)
  }

  return {
    member,
    random,
    isSuspended: () => monitor.suspended,
    hasContact: () => monitor.health.lastContact !== undefined,
    start: () => monitor.start(),
    report,
    async useTool(toolName, args) {
      // Until its next heartbeat an agent may believe that there are no decoys.
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
        repeat(() => between(random, ...thinkingSeconds), act),
        repeat(
          () => metricsEverySeconds,
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
