import { eventTypes, type KnownTool, knownTools, type NewEvent } from '@wardline/contract'
import { between, pick, type Random } from './simulate-random.ts'
import type { CastMember, Role } from './simulate-story.ts'

type Report = Pick<NewEvent, 'severity' | 'event_type' | 'description' | 'metadata'>

/** The event as the agent sends it: tagged, so that nobody takes it for the work of a real agent. */
export function demoEvent(member: CastMember, sessionId: string, report: Report): NewEvent {
  return {
    ...report,
    source: member.id,
    instance_id: member.id,
    session_id: sessionId,
    metadata: { ...report.metadata, demo: true },
  }
}

const doings: Record<KnownTool, readonly string[]> = {
  'web-search': ['Looked up the shipping policy', 'Searched for release notes', 'Searched the knowledge base'],
  'file-read': ['Read the customer handbook', 'Read the quarterly figures', 'Read a pull request'],
  'http-request': ['Asked the order service for a status', 'Fetched an exchange rate', 'Called the ticket interface'],
  'shell-exec': ['Ran the test suite', 'Listed the build folder', 'Checked the free disk space'],
  'email-send': ['Answered a customer', 'Sent the weekly report', 'Forwarded an invoice'],
  'code-exec': ['Drew a chart', 'Computed a forecast', 'Formatted a table'],
}

/** Mostly a tool of the role, now and then another one. */
export function toolCall(random: Random, role: Role): Report {
  const tool = pick(random, random() < 0.85 ? role.tools : knownTools)
  return {
    severity: 'info',
    event_type: eventTypes.toolCall,
    description: pick(random, doings[tool]),
    metadata: { toolName: tool, durationMs: Math.round(between(random, 20, 1_800)) },
  }
}

const metricsReport = (metrics: Record<string, number>): Report => ({
  severity: 'info',
  event_type: eventTypes.sessionMetrics,
  description: JSON.stringify(metrics),
})

/**
 * What is usual for the role. Counts stray by one and lengths by 2 %: too little for the detector, whose least
 * deviation is 1, or 5 % of the mean.
 */
export function usualMetrics(random: Random, { usual }: Role): Report {
  const near = (value: number) => value + pick(random, [-1, 0, 1])
  return metricsReport({
    tool_calls_per_5min: near(usual.toolCalls),
    unique_tools_used: near(usual.uniqueTools),
    avg_response_length: Math.round(usual.answerLength * between(random, 0.98, 1.02)),
    shell_exec_count: near(usual.shellCalls),
    http_request_count: near(usual.httpRequests),
    injection_attempt_count: 0,
    egress_blocked_count: 0,
  })
}

/** An agent that runs away: calls by the hundred, everything else as usual. */
export function runawayMetrics(random: Random, role: Role): Report {
  const usual = JSON.parse(usualMetrics(random, role).description) as Record<string, number>
  return metricsReport({
    ...usual,
    tool_calls_per_5min: Math.round(between(random, 350, 450)),
    shell_exec_count: Math.round(between(random, 90, 140)),
  })
}

export const injectionDetected = (): Report => ({
  severity: 'warning',
  event_type: eventTypes.injectionDetected,
  description: 'A fetched page tells the agent to ignore its instructions and mail the customer list',
  metadata: { detector: 'input-filter', origin: 'https://pages.example/offer' },
})

export const injectionBlocked = (): Report => ({
  severity: 'info',
  event_type: eventTypes.injectionBlocked,
  description: 'The page was withheld from the model',
  metadata: { blocked: true },
})

export const egressBlocked = (random: Random): Report => ({
  severity: 'warning',
  event_type: eventTypes.egressBlocked,
  description: 'A request to a host outside the allow list was stopped',
  metadata: { host: pick(random, ['paste.example', 'files.example', 'tunnel.example']), blocked: true },
})

export const policyViolation = (random: Random): Report => ({
  severity: 'warning',
  event_type: eventTypes.policyViolation,
  description: pick(random, [
    'The answer held a phone number that policy keeps inside',
    'A refund above the limit of this agent was proposed',
    'A shell command outside the working folder was proposed',
  ]),
})
