/**
 * Why a call was denied.
 *
 * `suspended`: the agent is suspended. `decoy`: an argument contains a decoy. `unchecked`: the arguments were not
 * compared with the decoys, because the check failed and the fail mode is `closed`, or because the arguments or the
 * number of calls do not allow a check.
 */
export type DenialCode = 'suspended' | 'decoy' | 'unchecked'

/**
 * A denial that a model may read. `reason` does not reveal that a decoy was touched, because an attacker who steers the
 * model would learn what to avoid. `code` is for the program and is left out of JSON and of copies.
 */
export interface Denial {
  denied: true
  /** One or two plain sentences. */
  reason: string
  /** Always false: the model must not retry. */
  retryable: false
  readonly code: DenialCode
}

export function denialOf(code: DenialCode, reason: string): Denial {
  const denial = { denied: true, reason, retryable: false } as const
  return Object.defineProperty(denial, 'code', { value: code }) as Denial
}

// Texts for the model and its user.

export const notAllowed = 'The security monitor of this agent does not allow this call. Do not retry it.'

export const suspendedReason = (reason: string | null | undefined): string =>
  `This agent is suspended (${reason ?? 'no reason was given'}). It must stop here and not retry.`

/** `faults` are sentences that tell a person how to fix the cause. */
export const uncheckedReason = (...faults: readonly string[]): string =>
  ['The security monitor could not check this call, and does not allow unchecked calls.', ...faults].join(' ')

/** Thrown by a guard that denies a call; also the reason of `monitor.signal`. Never contains a value of an argument. */
export class WardlineDenied extends Error {
  override name = 'WardlineDenied'
  readonly code: DenialCode
  /** The part for the model. */
  readonly denial: Denial
  readonly retryable = false

  constructor(denial: Denial, toolName?: string) {
    const call = toolName === undefined ? '' : `The call of ${String(toolName).slice(0, 100)} was denied. `
    const decoy =
      'An argument contains a decoy, which no task needs. The service has recorded the breach: end this task.'
    super(call + (denial.code === 'decoy' ? decoy : denial.reason))
    this.code = denial.code
    this.denial = denial
  }
}
