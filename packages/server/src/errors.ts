import type { ErrorCode } from '@wardline/contract'

/** A failure that is reported to the caller: the message is one plain sentence without secrets. */
export class AppError extends Error {
  override name = 'AppError'
  readonly code: ErrorCode
  /** Seconds after which a retry makes sense; sent as Retry-After. */
  readonly retryAfterSeconds: number | undefined
  /** Fields of the answer beside `error`. */
  readonly details: Record<string, unknown> | undefined

  constructor(code: ErrorCode, message: string, retryAfterSeconds?: number, details?: Record<string, unknown>) {
    // Thousands of refusals a second must cost little, and a stack costs more than all the rest of one.
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(message)
    Error.stackTraceLimit = stackTraceLimit
    this.code = code
    this.retryAfterSeconds = retryAfterSeconds
    this.details = details
  }
}

/** @param list the command that lists what there is. */
export const unknownId = (kind: string, id: string, list: string): AppError =>
  new AppError('not_found', `No ${kind} with id ${id}; \`${list}\` lists them.`)

interface DatabaseFault {
  /** This statement can never succeed as it is. */
  constraint?: boolean
  /** A row that the transaction was to hold is missing (`Dialect.hold`): what was read before is out of date. */
  stale?: boolean
  /** Another transaction was in the way for too long: the same request may succeed in a moment. */
  busy?: boolean
  cause?: unknown
}

/** The database refused or did not answer. */
export class DatabaseError extends Error {
  override name = 'DatabaseError'
  readonly constraint: boolean
  readonly stale: boolean
  readonly busy: boolean

  constructor(message: string, { constraint = false, stale = false, busy = false, cause }: DatabaseFault = {}) {
    super(message, { cause })
    this.constraint = constraint
    this.stale = stale
    this.busy = busy
  }
}
