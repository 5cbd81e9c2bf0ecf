/**
 * Why a call was denied. `suspended`: the agent is suspended. `decoy`: an argument contains a decoy. `unchecked`: the
 * arguments could not be compared with the decoys, because the check failed with fail mode `closed`, or because the
 * arguments or the number of calls exceed a limit.
 */
export type DenialCode = 'suspended' | 'decoy' | 'unchecked'

/**
 * A denial for the model. `reason` does not reveal that a decoy was touched, which would teach an attacker who steers the
 * model what to avoid. `code` is for the program; it is not part of JSON and copies.
 */
export interface Denial {
  denied: true
  /** One or two plain sentences. */
  reason: string
  /** Always false: a retry does not help. */
  retryable: false
  readonly code: DenialCode
}

export function denialOf(code: DenialCode, reason: string): Denial {
  const denial = { denied: true, reason, retryable: false } as const
  return Object.defineProperty(denial, 'code', { value: code }) as Denial
}

// What a model and its user read.

export const notAllowed = 'The security monitor of this agent does not allow this call. Do not retry it.'

export const suspendedReason = (reason: string | null | undefined): string =>
  `This agent is suspended (${reason ?? 'no reason was given'}). It must stop here and not retry.`

/** `faults` tell a person how to fix it. */
export const uncheckedReason = (...faults: readonly string[]): string =>
  ['The security monitor could not check this call, and does not allow unchecked calls.', ...faults].join(' ')

/** Thrown by a guard that denies a call, and the reason of `monitor.signal`. Never contains a value of an argument. */
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
