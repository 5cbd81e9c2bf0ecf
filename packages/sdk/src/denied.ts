/**
 * Why a call was denied: the agent is suspended; an argument holds a decoy; or the decoys could not be checked and the
 * fail mode is `closed`.
 */
export type DenialCode = 'suspended' | 'decoy' | 'unchecked'

/**
 * A denial as a model may read it. `reason` does not say that a decoy was touched: whoever steers the model would learn
 * what to keep clear of. `code` tells the program; it is left out of JSON and of copies.
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

const explanations: Record<Exclude<DenialCode, 'suspended'>, string> = {
  decoy: 'An argument holds a decoy, which nobody needs. The service has recorded the breach: end this task.',
  unchecked: 'Its arguments could not be compared with the decoys in time, and failMode is "closed".',
}

/** Thrown by a guard that denies a call, and the reason of `monitor.signal`. It never holds a value of an argument. */
export class WardlineDenied extends Error {
  override name = 'WardlineDenied'
  readonly code: DenialCode
  /** What a model may be told. */
  readonly denial: Denial
  readonly retryable = false

  constructor(denial: Denial, toolName?: string) {
    const call = toolName === undefined ? '' : `The call of ${toolName} was denied. `
    super(call + (denial.code === 'suspended' ? denial.reason : explanations[denial.code]))
    this.code = denial.code
    this.denial = denial
  }
}
