import type { ErrorCode } from '@wardline/contract'

/** An error reported to the caller. The message is one plain sentence without secrets. */
export class AppError extends Error {
  override name = 'AppError'
  readonly code: ErrorCode
  /** Seconds after which a retry makes sense; sent as Retry-After. */
  readonly retryAfterSeconds: number | undefined
  /** Fields of the response body in addition to `error`. */
  readonly details: Record<string, unknown> | undefined

  constructor(code: ErrorCode, message: string, retryAfterSeconds?: number, details?: Record<string, unknown>) {
    // No stack trace: it costs more than the rest of a refusal, of which there may be thousands per second.
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(message)
    Error.stackTraceLimit = stackTraceLimit
    this.code = code
    this.retryAfterSeconds = retryAfterSeconds
    this.details = details
  }
}

/** @param list command that lists the existing ids */
export const unknownId = (kind: string, id: string, list: string): AppError =>
  new AppError('not_found', `No ${kind} with id ${id}; \`${list}\` lists them.`)
export const unknownInstance = (id: string): AppError => unknownId('instance', id, 'wardline instances')

interface DatabaseFault {
  /** The statement violates a constraint or type, so a retry cannot succeed. */
  constraint?: boolean
  /** A row to be locked is missing (`Dialect.lockFound`), so the data read before is out of date. */
  stale?: boolean
  /** The statement conflicted with another transaction or timed out. A retry may succeed. */
  busy?: boolean
  cause?: unknown
}

/** The database returned an error or did not respond. */
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
