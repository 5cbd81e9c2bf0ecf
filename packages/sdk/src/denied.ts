/**
 * Why a call was denied.
 *
 * `suspended`: the agent is suspended. `decoy`: an argument contains a decoy. `unchecked`: the arguments were not
 * compared with the decoys, because the check failed and the fail mode is `closed`, or because the arguments or the
 * number of calls do not allow a check. `policy`: a rule of the operators denies the call. `approval`: a rule asks a
 * person, who has not approved it.
 */
export type DenialCode = 'suspended' | 'decoy' | 'unchecked' | 'policy' | 'approval'

/**
 * A denial that a model may read. `reason` does not reveal that a decoy was touched, because an attacker who steers the
 * model would learn what to avoid. `code`, `rule` and `approvalId` are for the program and are left out of JSON and of
 * copies.
 */
export interface Denial {
  denied: true
  /** One or two plain sentences. */
  reason: string
  /** True only while an approval of the call is pending; otherwise the model must not retry. */
  retryable: boolean
  readonly code: DenialCode
  /** With the codes `policy` and `approval`: title of the rule, or `flow`. */
  readonly rule?: string | undefined
  /** Of a call that a person was asked about. */
  readonly approvalId?: string | undefined
}

interface DenialDetails {
  rule?: string | undefined
  approvalId?: string | undefined
  retryable?: boolean
}

export function denialOf(
  code: DenialCode,
  reason: string,
  { rule, approvalId, retryable = false }: DenialDetails = {},
): Denial {
  const hidden = { code: { value: code }, rule: { value: rule }, approvalId: { value: approvalId } }
  return Object.defineProperties({ denied: true, reason, retryable }, hidden) as Denial
}

// Texts for the model and its user.

export const notAllowed = 'The security monitor of this agent does not allow this call. Do not retry it.'

export const suspendedReason = (reason: string | null | undefined): string =>
  `This agent is suspended (${reason ?? 'no reason was given'}). It must stop here and not retry.`

/** `faults` are sentences that tell a person how to fix the cause. */
export const uncheckedReason = (...faults: readonly string[]): string =>
  ['The security monitor could not check this call, and does not allow unchecked calls.', ...faults].join(' ')

export const deniedByRule = (rule: string | null): string =>
  `The policy of this agent denies this call${rule === null ? '' : ` (${rule})`}. Do not retry it.`

export const pendingReason = (approvalId: string): string =>
  `Denied: approval ${approvalId} is pending. Retry the same call later.`

export const notApproved = (because: string): string => `The policy of this agent asks a person. ${because}`

/** Thrown by a guard that denies a call; also the reason of `monitor.signal`. Never contains a value of an argument. */
export class WardlineDenied extends Error {
  override name = 'WardlineDenied'
  readonly code: DenialCode
  /** The part for the model. */
  readonly denial: Denial
  readonly retryable: boolean

  constructor(denial: Denial, toolName?: string) {
    const call = toolName === undefined ? '' : `The call of ${String(toolName).slice(0, 100)} was denied. `
    const decoy =
      'An argument contains a decoy, which no task needs. The service has recorded the breach: end this task.'
    super(call + (denial.code === 'decoy' ? decoy : denial.reason))
    this.code = denial.code
    this.denial = denial
    this.retryable = denial.retryable
  }
}

/** Thrown for a call that a policy denies, or for which a person has not approved it. */
export class CallDenied extends WardlineDenied {
  override name = 'CallDenied'
  /** Title of the rule, or `flow`; undefined if the policy denies what no rule allows. */
  readonly rule: string | undefined
  /** Set if a person was asked. */
  readonly approvalId: string | undefined

  constructor(denial: Denial, toolName?: string) {
    super(denial, toolName)
    this.rule = denial.rule
    this.approvalId = denial.approvalId
  }
}

export const deniedError = (denial: Denial, toolName: string): WardlineDenied =>
  denial.code === 'policy' || denial.code === 'approval'
    ? new CallDenied(denial, toolName)
    : new WardlineDenied(denial, toolName)
