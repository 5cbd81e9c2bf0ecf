import type { GatewayKind } from '../../config/gateway.ts'

/** An error as the client libraries of a provider expect it. */
export interface FormatError {
  status: 400 | 401 | 403 | 404 | 413 | 429 | 502 | 503
  message: string
  /** A retry within a minute is refused too. */
  isFinal?: boolean
}

/** Ends a call with an error in the provider's format. */
export class Refusal extends Error {
  readonly status: FormatError['status']
  readonly outcome: 'refused' | 'suspended'

  constructor(status: FormatError['status'], message: string, outcome: Refusal['outcome'] = 'refused') {
    super(message)
    this.status = status
    this.outcome = outcome
  }
}

/** What one provider's protocol looks like, as far as the gateway reads it. */
export interface Format {
  /** Paths below the upstream's name that are passed on, each with its method. */
  routes: readonly (readonly [method: 'GET' | 'POST', path: RegExp])[]
  /** Begins each path of a client, and the URL of the upstream ends with it. */
  prefix: string
  /** Header of the provider's key. */
  keyHeader(key: string): readonly [name: string, value: string]
  errorBody(error: FormatError): string
  /** Ends a stream of events so that no client takes it for a finished answer. */
  errorEvent(error: FormatError): string
}

const types: Record<FormatError['status'], { openai: string; anthropic: string; gemini: string }> = {
  400: { openai: 'invalid_request_error', anthropic: 'invalid_request_error', gemini: 'INVALID_ARGUMENT' },
  401: { openai: 'authentication_error', anthropic: 'authentication_error', gemini: 'UNAUTHENTICATED' },
  403: { openai: 'permission_error', anthropic: 'permission_error', gemini: 'PERMISSION_DENIED' },
  404: { openai: 'invalid_request_error', anthropic: 'not_found_error', gemini: 'NOT_FOUND' },
  413: { openai: 'invalid_request_error', anthropic: 'request_too_large', gemini: 'INVALID_ARGUMENT' },
  429: { openai: 'rate_limit_error', anthropic: 'rate_limit_error', gemini: 'RESOURCE_EXHAUSTED' },
  502: { openai: 'server_error', anthropic: 'api_error', gemini: 'UNAVAILABLE' },
  503: { openai: 'server_error', anthropic: 'overloaded_error', gemini: 'UNAVAILABLE' },
}

// https://platform.openai.com/docs/guides/error-codes; in a stream the libraries raise an event with `error`.
// Libraries retry a 429 with any other code.
const openaiQuota = 'insufficient_quota'
const openaiBody = ({ status, message, isFinal }: FormatError): string => {
  const code = isFinal ? openaiQuota : `wardline_${status}`
  return JSON.stringify({ error: { message, type: isFinal ? openaiQuota : types[status].openai, param: null, code } })
}
// https://docs.claude.com/en/api/errors
const anthropicBody = ({ status, message }: FormatError): string =>
  JSON.stringify({ type: 'error', error: { type: types[status].anthropic, message } })
// https://cloud.google.com/apis/design/errors
const geminiBody = ({ status, message }: FormatError): string =>
  JSON.stringify({ error: { code: status, message, status: types[status].gemini } })

const model = '[\\w.:-]{1,200}'
const models = new RegExp(`^/v1/models(/${model})?$`)

export const formats: Record<GatewayKind, Format> = {
  openai: {
    routes: [
      ['POST', /^\/v1\/(chat\/completions|responses)$/],
      ['GET', models],
    ],
    prefix: '/v1',
    keyHeader: (key) => ['authorization', `Bearer ${key}`],
    errorBody: openaiBody,
    errorEvent: (error) => `data: ${openaiBody(error)}\n\n`,
  },
  anthropic: {
    routes: [
      ['POST', /^\/v1\/messages(\/count_tokens)?$/],
      ['GET', models],
    ],
    prefix: '',
    keyHeader: (key) => ['x-api-key', key],
    errorBody: anthropicBody,
    errorEvent: (error) => `event: error\ndata: ${anthropicBody(error)}\n\n`,
  },
  gemini: {
    routes: [
      ['POST', new RegExp(`^/v1(beta)?/models/${model}:(generateContent|streamGenerateContent|countTokens)$`)],
      ['GET', new RegExp(`^/v1(beta)?/models(/${model})?$`)],
    ],
    prefix: '',
    keyHeader: (key) => ['x-goog-api-key', key],
    errorBody: geminiBody,
    errorEvent: (error) => `data: ${geminiBody(error)}\n\n`,
  },
}
