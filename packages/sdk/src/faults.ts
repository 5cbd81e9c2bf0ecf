/**
 * Kind of fault.
 *
 * `unencrypted`: no encryption to a service on another machine. `unsigned`: an answer without a valid signature.
 * `unreachable`: no answer. `unauthorized`: an invalid key. `unexpected`: an invalid answer. `dropped`: lost events.
 * `invalid`: an invalid report. `unchecked`: decoys were not checked. `file`: a state file or suspend log that cannot
 * be read or written. `listener`: a listener threw. `policy`: policies that cannot be used, or a question to a person that
 * was not answered.
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
  | 'policy'

/**
 * Passed to listeners of `error`. The message says what is wrong and how to fix it; it never contains a key or an
 * argument.
 */
export class MonitorError extends Error {
  override name = 'MonitorError'
  readonly code: FaultCode

  constructor(code: FaultCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
  }
}
