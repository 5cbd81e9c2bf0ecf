/**
 * Why a call was denied: the agent is suspended; an argument holds a decoy; or the arguments were not compared with the
 * decoys, because that failed and the fail mode is `closed`, or because the arguments or their number do not allow it.
 */
export type DenialCode = 'suspended' | 'decoy' | 'unchecked'

/**
 * A denial as a model may read it. `reason` does not say that a decoy was touched: an attacker who steers the model
 * would learn what to avoid. `code` is for the program; it is left out of JSON and of copies.
 */
export interface Denial {
  denied: true
  /** One or two plain sentences. */
  reason: string
  /** Trying again is never the answer. */
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

/** `faults` say what a person can do about it. */
export const uncheckedReason = (...faults: readonly string[]): string =>
  ['The security monitor could not check this call, and does not allow unchecked calls.', ...faults].join(' ')

/** Thrown by a guard that denies a call, and the reason of `monitor.signal`. It never holds a value of an argument. */
export class WardlineDenied extends Error {
  override name = 'WardlineDenied'
  readonly code: DenialCode
  /** The part that a model may read. */
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
