// What a model and its user read. None says that a decoy was touched: whoever steers the model would learn what to keep
// clear of.

export const notAllowed = 'The security monitor of this agent does not allow this call. Do not try it again.'

export const suspended = (reason: string | null): string =>
  `This agent is suspended (${reason ?? 'no reason was given'}). It must stop here and not try again.`

/** `faults` say what a person can do about it. */
export const unchecked = (faults: readonly string[]): string =>
  `The security monitor could not check this call, and does not allow what it has not checked. ${faults.join(' ')}`
