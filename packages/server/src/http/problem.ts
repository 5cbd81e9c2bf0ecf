import { type ErrorCode, errorStatus } from '@wardline/contract'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import type { Deps } from '../deps.ts'
import { AppError, DatabaseError } from '../errors.ts'
import { fullBucket, spend, waitFor } from '../token-bucket.ts'
import { validationSentence } from '../validation.ts'
import { isBeyondCap } from './connections.ts'

interface Problem {
  code: ErrorCode
  message: string
  retryAfterSeconds?: number | undefined
  details?: Record<string, unknown> | undefined
}

const frameworkProblems: Record<string, Problem> = {
  FST_ERR_CTP_BODY_TOO_LARGE: { code: 'too_large', message: 'The body is too large.' },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: { code: 'unsupported_media_type', message: 'The body must be application/json.' },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: { code: 'invalid', message: 'The body does not have the announced length.' },
}

const messages: Partial<Record<ErrorCode, string>> = {
  forbidden: 'This is not allowed.',
  not_found: 'Unknown route.',
}

/** Maps a plugin's 4xx error by its status. Its message is not shown, because it may name files of this machine. */
function refusalOfPlugin(status: number): Problem {
  const codes = Object.keys(errorStatus) as ErrorCode[]
  const code = codes.find((known) => errorStatus[known] === status) ?? 'invalid'
  return { code, message: messages[code] ?? 'The request is malformed.' }
}

const busyDatabase: Problem = {
  code: 'overloaded',
  message: 'The database is busy; retry in a moment.',
  retryAfterSeconds: 1,
}

/** Returns the part of an error that the caller may see. Unknown errors become `internal`, without details. */
function toProblem(fault: unknown): Problem {
  if (fault instanceof AppError) return fault
  if (fault instanceof DatabaseError && fault.busy) return busyDatabase
  if (fault instanceof DatabaseError) return { code: 'database', message: 'The database is unavailable.' }
  const error = fault as FastifyError
  if (error.validation) {
    const subject = (error.validationContext ?? 'body') === 'body' ? 'The body' : 'The request'
    return { code: 'invalid', message: validationSentence(error.validation[0]!, subject) }
  }
  const known = frameworkProblems[error.code]
  if (known) return known
  const status = error.statusCode ?? 500
  if (status >= 400 && status < 500) return refusalOfPlugin(status)
  return { code: 'internal', message: 'Internal error; the log of the service has the details.' }
}

/** Keeps a response out of all caches (RFC 9111, section 5.2.2.5). */
export const noStore = 'no-store'

export function sendProblem(problem: Problem, reply: FastifyReply): void {
  // The handler may have allowed caching before it failed.
  reply.headers({ 'x-error-code': problem.code, 'cache-control': noStore })
  if (problem.retryAfterSeconds !== undefined) reply.header('retry-after', problem.retryAfterSeconds)
  reply.code(errorStatus[problem.code]).send({ error: problem.message, ...problem.details })
}

/** Refusals per second sent without delay, and the delay of the others. */
const promptRefusals = 200
const refusalWaitMs = 100

/**
 * Delays responses that ask a client to retry later. Otherwise a client that retries immediately on many connections
 * would keep the process busy with refusals and delay kills. All clients share one rate, because a delayed refusal
 * costs an honest client nothing.
 */
export class RefusalPace {
  readonly #prompt = fullBucket(1_000 / promptRefusals, promptRefusals, -Infinity)

  /** Returns the delay of the next refusal in milliseconds. `now`: monotonic, in milliseconds. */
  next(now: number): number {
    if (waitFor(this.#prompt, 1, now) > 0) return refusalWaitMs
    spend(this.#prompt, 1)
    return 0
  }
}

/** Limits logging, so that neither a failing disk nor a caller who triggers a bug fills the disk with logs. */
const logEveryMs = 1_000

/** Bytes of a refused body that are read: what a client sends by mistake. More would keep a connection busy for seconds. */
const maxDiscarded = 16 * 1024 * 1024

/** Creates the error handler of all routes: logs errors that need an operator, and sends the caller a sentence. */
export function problemHandler({ log, clock, metrics }: Pick<Deps, 'log' | 'clock' | 'metrics'>) {
  const pace = new RefusalPace()
  const logged = new Map<string, { at: number; unlogged: number }>()
  /** Logs one line per second, endpoint and message, with the number of failed requests since the last line. */
  function logFault(fault: unknown, request: FastifyRequest, message: string): void {
    const endpoint = request.routeOptions.url
    const name = `${message} ${endpoint}`
    const last = logged.get(name) ?? { at: -Infinity, unlogged: 0 }
    logged.set(name, last)
    last.unlogged += 1
    if (clock.monotonic() - last.at < logEveryMs) return
    log.error({ err: fault, requestId: request.id, endpoint, requests: last.unlogged }, message)
    Object.assign(last, { at: clock.monotonic(), unlogged: 0 })
  }
  return (fault: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const problem = toProblem(fault)
    const status = `${Math.floor(errorStatus[problem.code] / 100)}xx`
    metrics.requests.inc({ endpoint: request.routeOptions.config.endpoint ?? 'other', status })
    if (problem.code === 'database') logFault(fault, request, 'the database failed')
    if (problem.code === 'internal') logFault(fault, request, 'request failed')
    // Fastify would close the connection while the client still sends, which then sees EPIPE in place of the refusal.
    // Node reads and discards the rest of the body, at the longest until its request timeout.
    const isDiscarded = Number(request.headers['content-length'] ?? 0) <= maxDiscarded
    if (problem.code === 'too_large' && isDiscarded && !isBeyondCap(request.raw.socket))
      reply.removeHeader('connection')
    const wait = problem.retryAfterSeconds === undefined ? 0 : pace.next(clock.monotonic())
    if (wait === 0) sendProblem(problem, reply)
    else setTimeout(sendProblem, wait, problem, reply)
  }
}
