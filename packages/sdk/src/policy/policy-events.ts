import type { PolicyReference, SetDecision } from '@wardline/policy'
import { shownCallId } from '../events.ts'
import type { GuardedCall, Report } from '../monitor.ts'
import { plainLine } from '../plain-line.ts'

/** An event about a decision: of the hook, the proxy and the SDK alike. */
export type PolicyEvent = Report & { metadata: Record<string, unknown> }

/** Policies in mode observe that one call reports. */
const maxObserved = 5
const maxToolName = 100

interface Said {
  decision: string
  rule: string | null
  why: string | null
  policy: PolicyReference | null
}

function eventAbout(
  eventType: string,
  sentence: (tool: string) => string,
  toolName: string,
  sessionId: string | undefined,
  { decision, rule, why, policy }: Said,
  callId?: string,
): PolicyEvent {
  const tool = plainLine(toolName.slice(0, maxToolName))
  const by = rule === null ? (policy?.title ?? '') : rule
  return {
    severity: eventType === 'policy_observed' ? 'info' : 'warning',
    eventType,
    description: `${sentence(tool)}: ${by}`,
    sessionId,
    metadata: {
      tool,
      rule,
      ...(policy ? { policy_id: policy.id, policy_version: policy.version } : {}),
      decision,
      ...(why === null ? {} : { why }),
      ...shownCallId(callId),
    },
  }
}

/** Of a call that did not run: a rule denies it, or asks, and nobody could be asked. */
export const blockedEvent = (
  { toolName, sessionId, callId }: Pick<GuardedCall, 'toolName' | 'sessionId' | 'callId'>,
  decided: SetDecision,
): PolicyEvent =>
  eventAbout('tool_blocked', (name) => `${name} was denied by a policy`, toolName, sessionId, decided, callId)

/** Of a call that ran although a rule asks, because nobody could be asked and the fail mode is open. */
export const unaskedEvent = (tool: string, sessionId: string | undefined, decided: SetDecision): PolicyEvent =>
  eventAbout('approval_unavailable', (name) => `${name} ran without its approval`, tool, sessionId, decided)

/** Of a call about which the coding agent asks its own user. */
export const leftToUserEvent = (tool: string, sessionId: string | undefined, decided: SetDecision): PolicyEvent =>
  eventAbout('approval_left_to_user', (name) => `The user is asked about ${name}`, tool, sessionId, decided)

/** What policies in mode observe would have said. */
export const observedEvents = (tool: string, sessionId: string | undefined, { observed }: SetDecision): PolicyEvent[] =>
  observed
    .slice(0, maxObserved)
    .map((said) =>
      eventAbout('policy_observed', (name) => `A policy would ${said.decision} ${name}`, tool, sessionId, said),
    )

/**
 * The arguments of a call by name, as policies read them: those of a tool that takes one object, or JSON of one; others are
 * called `0`, `1` and so on, in the order of the function's arguments.
 */
export function argumentsOf(args: unknown): unknown {
  if (args === undefined || args === null) return {}
  if (typeof args === 'string') return parsedArguments(args) ?? { 0: args }
  if (!Array.isArray(args)) return typeof args === 'object' ? args : { 0: args }
  const [only] = args
  if (args.length === 1) return Array.isArray(only) ? { 0: only } : argumentsOf(only)
  return { ...args }
}

function parsedArguments(text: string): object | undefined {
  if (!/^\s*\{/.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
