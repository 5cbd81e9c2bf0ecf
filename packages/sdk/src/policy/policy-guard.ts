import { argsHash, type SetDecision } from '@wardline/policy'
import type { ActiveFaults } from '../active-faults.ts'
import { type Denial, denialOf, deniedByRule, notApproved, pendingReason, uncheckedReason } from '../denied.ts'
import { MonitorError } from '../faults.ts'
import type { GuardedCall, OnAsk } from '../monitor.ts'
import type { Settings } from '../options.ts'
import { plainLine } from '../plain-line.ts'
import { redacted, redactedId } from '../redact.ts'
import type { Approvals, Outcome, Question } from './approvals.ts'
import type { Policies } from './policies.ts'
import { argumentsOf, blockedEvent, observedEvents, type PolicyEvent, unaskedEvent } from './policy-events.ts'
import type { Sessions } from './sessions.ts'

/** Bytes of the arguments that a person sees. */
const previewBytes = 4 * 1024
const maxToolName = 200
/** The service takes no shorter time: a person could not read the question in it. */
const minWaitSeconds = 30

interface PolicyGuardOptions {
  policies: Policies
  sessions: Sessions
  approvals: Approvals
  faults: ActiveFaults
  settings: Pick<Settings, 'failMode' | 'onAsk'>
  report(event: PolicyEvent): void
}

/** The question to a person about a call; undefined for arguments that cannot be named exactly. */
export function questionOf(decided: SetDecision, call: GuardedCall): Question | undefined {
  const args = argumentsOf(call.args)
  const hash = argsHash(args)
  if (hash === undefined || decided.policy === null) return undefined
  const { rule, why, policy, approvals, waitMs } = decided
  return {
    ...(call.sessionId ? { session_id: redactedId(String(call.sessionId)) } : {}),
    tool: call.toolName.slice(0, maxToolName).toWellFormed(),
    args_sha256: hash,
    args: JSON.stringify(redacted(args, previewBytes)),
    policy_id: policy.id,
    policy_version: policy.version,
    rule,
    ...(why === null ? {} : { why: why.slice(0, 500) }),
    approvals,
    wait_seconds: Math.max(minWaitSeconds, Math.ceil(waitMs / 1_000)),
  }
}

/** Returns the denial after an outcome; undefined if the call may run. */
export function denialAfter(outcome: Outcome, rule: string | null, failMode: 'open' | 'closed'): Denial | undefined {
  const details = { rule: rule ?? undefined, approvalId: 'id' in outcome ? outcome.id : undefined }
  switch (outcome.state) {
    case 'granted':
      return undefined
    case 'pending':
      return denialOf('approval', pendingReason(outcome.id), { ...details, retryable: true })
    case 'denied': {
      const reason = outcome.reason === null ? '' : ` (${plainLine(outcome.reason.slice(0, 500))})`
      return denialOf('approval', notApproved(`It was denied${reason}. Do not retry it.`), details)
    }
    case 'expired':
      return denialOf('approval', notApproved('Nobody approved it in time. Do not retry it.'), details)
    case 'refused':
      return denialOf('approval', notApproved(`Nobody could be asked. ${outcome.fault}`), details)
    case 'away':
      if (failMode === 'open') return undefined
      return denialOf('approval', notApproved(`Nobody could be asked. ${outcome.fault}`), details)
  }
}

/** Decides on calls by the policies of the operators, and asks people where these say so. */
export class PolicyGuard {
  readonly #options: PolicyGuardOptions

  constructor(options: PolicyGuardOptions) {
    this.#options = options
  }

  /** Returns a denial, or undefined if the call may run. Each of the signals ends the waiting for a person. */
  async check(call: GuardedCall, onAsk: OnAsk, signals: readonly AbortSignal[]): Promise<Denial | undefined> {
    const { policies, sessions, settings } = this.#options
    const set = await policies.current()
    if (!set) {
      const isUnchecked = policies.areMissing && settings.failMode === 'closed'
      return isUnchecked ? denialOf('policy', uncheckedReason('Its policies could not be read.')) : undefined
    }
    const { toolName: tool, args, sessionId, scope } = call
    const named = { tool, scope, args: argumentsOf(args), at: Date.now() }
    const decided = set.decide(sessions.memoryOf(sessionId), named)
    for (const event of observedEvents(tool, sessionId, decided)) this.#options.report(event)
    if (decided.decision === 'allow') return undefined
    if (decided.decision === 'ask') return this.#ask(call, decided, onAsk, signals)
    this.#options.report(blockedEvent(call, decided))
    return denialOf('policy', deniedByRule(decided.rule), { rule: decided.rule ?? undefined })
  }

  async #ask(
    call: GuardedCall,
    decided: SetDecision,
    onAsk: OnAsk,
    signals: readonly AbortSignal[],
  ): Promise<Denial | undefined> {
    const { approvals, settings, report, faults } = this.#options
    const { toolName: tool, sessionId } = call
    const question = questionOf(decided, call)
    const waiting = { onWait: (id: string) => call.onWait?.(id), signals }
    const outcome: Outcome = question
      ? await approvals.ask(question, onAsk === 'wait' ? waiting : undefined)
      : { state: 'refused', fault: 'Its arguments are too large or nested too deeply.' }
    const denial = denialAfter(outcome, decided.rule, settings.failMode)
    if (outcome.state === 'away') {
      faults.raise(
        'approvals',
        new MonitorError('policy', `A person could not be asked about a call. ${outcome.fault}`),
      )
    } else faults.clear('approvals')
    if (outcome.state === 'away' && !denial) report(unaskedEvent(tool, sessionId, decided))
    else if (denial && !('id' in outcome)) report(blockedEvent(call, decided))
    return denial
  }
}
