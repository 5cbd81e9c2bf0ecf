/** HTTP status by error code. The code is in the header `x-error-code`; the body is `{ error }`. */
export const errorStatus = {
  invalid: 400,
  already_suspended: 400,
  not_suspended: 400,
  suspended: 400,
  unauthorized: 401,
  fresh_confirmation_required: 401,
  forbidden: 403,
  instance_limit: 403,
  not_found: 404,
  confirm_required: 409,
  second_operator_required: 409,
  parent_suspended: 409,
  conflict: 409,
  too_large: 413,
  unsupported_media_type: 415,
  wrong_host: 421,
  quota_exceeded: 429,
  too_many_failures: 429,
  database: 500,
  internal: 500,
  overloaded: 503,
  disabled: 503,
  unavailable: 503,
} as const

export type ErrorCode = keyof typeof errorStatus
