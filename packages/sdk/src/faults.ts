/**
 * What went wrong: no encryption on the way beyond this machine; an answer without a valid signature; no answer; an
 * invalid key; an invalid answer; lost events; an invalid report; decoys that were not checked; a state file or a
 * suspend log that cannot be read or written; a listener that threw.
 */
export type FaultCode =
  | 'unencrypted'
  | 'unsigned'
  | 'unreachable'
  | 'unauthorized'
  | 'unexpected'
  | 'dropped'
  | 'invalid'
  | 'unchecked'
  | 'file'
  | 'listener'

/** Passed to listeners of `error`. The message says what is wrong and how to fix it; it never contains keys or arguments. */
export class MonitorError extends Error {
  override name = 'MonitorError'
  readonly code: FaultCode

  constructor(code: FaultCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
  }
}
