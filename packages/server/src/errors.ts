import type { ErrorCode } from '@wardline/contract'

/** A failure that the caller is told about: the message is one plain sentence without secrets. */
export class AppError extends Error {
  override name = 'AppError'
  readonly code: ErrorCode
  /** Seconds after which a new try makes sense; sent as Retry-After. */
  readonly retryAfterSeconds: number | undefined

  constructor(code: ErrorCode, message: string, retryAfterSeconds?: number) {
    super(message)
    this.code = code
    this.retryAfterSeconds = retryAfterSeconds
  }
}

/** The database refused or did not answer. `constraint`: this statement can never succeed as it is. */
export class DatabaseError extends Error {
  override name = 'DatabaseError'
  readonly constraint: boolean

  constructor(message: string, options: { constraint?: boolean; cause?: unknown } = {}) {
    super(message, { cause: options.cause })
    this.constraint = options.constraint ?? false
  }
}
