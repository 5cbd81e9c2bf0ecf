import { type ErrorCode, errorStatus } from '@wardline/contract'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import type { Deps } from '../deps.ts'
import { AppError, DatabaseError } from '../errors.ts'
import { validationSentence } from './validation.ts'

interface Problem {
  code: ErrorCode
  message: string
  retryAfterSeconds?: number | undefined
}

const frameworkProblems: Record<string, Problem> = {
  FST_ERR_CTP_BODY_TOO_LARGE: { code: 'too_large', message: 'The body is too large.' },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: { code: 'unsupported_media_type', message: 'The body must be application/json.' },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: { code: 'invalid', message: 'The body does not have the announced length.' },
}

/** What the caller is told about a fault. Anything unforeseen is `internal`, without its details. */
function toProblem(fault: unknown): Problem {
  if (fault instanceof AppError) return fault
  if (fault instanceof DatabaseError) return { code: 'database', message: 'The database is unavailable.' }
  const error = fault as FastifyError
  if (error.validation)
    return { code: 'invalid', message: validationSentence(error.validation[0]!, error.validationContext) }
  const known = frameworkProblems[error.code]
  if (known) return known
  if (error.statusCode === 400) return { code: 'invalid', message: 'The request is malformed.' }
  return { code: 'internal', message: 'Something went wrong inside the service.' }
}

export function sendProblem(problem: Problem, reply: FastifyReply): void {
  reply.header('x-error-code', problem.code)
  if (problem.retryAfterSeconds !== undefined) reply.header('retry-after', problem.retryAfterSeconds)
  reply.code(errorStatus[problem.code]).send({ error: problem.message })
}

/** A broken disk under load would otherwise fill what is left of it with log lines. */
const databaseLogEveryMs = 1_000

/** The error handler of every route: one line in the log for what an operator must look at, one sentence for the caller. */
export function problemHandler({ log, clock, metrics }: Pick<Deps, 'log' | 'clock' | 'metrics'>) {
  let databaseLoggedAt = -Infinity
  let unlogged = 0
  function logDatabase(fault: unknown, request: FastifyRequest): void {
    unlogged += 1
    if (clock.monotonic() - databaseLoggedAt < databaseLogEveryMs) return
    databaseLoggedAt = clock.monotonic()
    log.error({ err: fault, endpoint: request.routeOptions.url, requests: unlogged }, 'the database failed')
    unlogged = 0
  }
  return (fault: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const problem = toProblem(fault)
    const status = `${Math.floor(errorStatus[problem.code] / 100)}xx`
    metrics.requests.inc({ endpoint: request.routeOptions.config.endpoint ?? 'other', status })
    if (problem.code === 'database') logDatabase(fault, request)
    if (problem.code === 'internal') {
      log.error({ err: fault, requestId: request.id, endpoint: request.routeOptions.url }, 'request failed')
    }
    sendProblem(problem, reply)
  }
}
