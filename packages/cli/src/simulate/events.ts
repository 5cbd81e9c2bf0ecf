import { eventTypes } from '@wardline/contract'
import type { Report } from '@wardline/sdk'
import { between, pick, type Random } from './random.ts'
import type { Role } from './story.ts'

/** Tags an event, so that it is not mistaken for an event of a real agent. */
export function demoReport(sessionId: string, report: Report): Report {
  return { ...report, sessionId, metadata: { ...report.metadata, demo: true } }
}

const metricsReport = (metrics: Record<string, number>): Report => ({
  severity: 'info',
  eventType: eventTypes.sessionMetrics,
  description: JSON.stringify(metrics),
})

/**
 * Returns metrics that are usual for the role. Counts vary by one and lengths by 2 %, too little for the detector,
 * whose minimum deviation is 1, or 5 % of the mean.
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

/** Returns metrics of a runaway agent: hundreds of tool calls, other metrics as usual. */
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
  eventType: eventTypes.injectionDetected,
  description: 'A fetched page tells the agent to ignore its instructions and mail the customer list',
  metadata: { detector: 'input-filter', origin: 'https://pages.example/offer' },
})

export const injectionBlocked = (): Report => ({
  severity: 'info',
  eventType: eventTypes.injectionBlocked,
  description: 'The page was withheld from the model',
  metadata: { blocked: true },
})

const blockedHost = (host: string) => ({ host, hosts: [host] })

export const egressBlocked = (random: Random): Report => ({
  severity: 'warning',
  eventType: eventTypes.egressBlocked,
  description: 'A request to a host outside the allow list was stopped',
  metadata: { ...blockedHost(pick(random, ['paste.example', 'files.example', 'tunnel.example'])), blocked: true },
})

export const policyViolation = (random: Random): Report => ({
  severity: 'warning',
  eventType: eventTypes.policyViolation,
  description: pick(random, [
    'The answer held a phone number that policy keeps inside',
    'A refund above the limit of this agent was proposed',
    'A shell command outside the working folder was proposed',
  ]),
})
