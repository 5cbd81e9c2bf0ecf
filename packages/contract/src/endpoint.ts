import type { TSchema } from 'typebox'

export const scopes = ['agent', 'viewer', 'operator', 'admin'] as const
export type Scope = (typeof scopes)[number]

/** One row of the endpoint table. */
export interface Endpoint {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Path with `:name` parameters. */
  path: string
  /**
   * Key scopes that may call it. `open` needs no key; configuration decides whether `stream` and `metrics` need one.
   */
  access: readonly Scope[] | 'open' | 'stream' | 'metrics'
  /** Query parameter that requires a reader's key even where the endpoint is open. */
  keyedBy?: string
  feature: string
  summary: string
  params?: TSchema
  query?: TSchema
  body?: TSchema
  /** The body may also be YAML; the handler gets its text under this name: `{ rule: <text> }`. */
  yaml?: 'rule' | 'policy'
  /** The body may have `limits.batchBytes` instead of `limits.bodyBytes`. */
  largeBody?: boolean
  /** Set when the handler parses the body itself, because it comes in several forms. */
  rawBody?: { contentTypes: readonly string[]; description: string }
  /**
   * Speaks OTLP/HTTP: the key may be a bearer, and errors are a google.rpc.Status, in the form of the request. The body may
   * have `limits.otlpBytes`.
   */
  isOtlp?: boolean
  /** Descriptions of the request headers that the endpoint reads, by name. */
  headers?: Record<string, string>
  /** Descriptions of the headers of a success response, by name. */
  replyHeaders?: Record<string, string>
  /** Status of a success response. `reply` is its schema, unless it is text, a file or a stream. */
  status: 200 | 201
  /** Set when the status is 200 instead of 201 for a request that changed nothing; describes that case. */
  unchanged?: string
  reply?: TSchema
  text?: string
  /** A file to download. */
  file?: { contentType: string; description: string }
  /** Server-Sent Events instead of one JSON body. */
  eventStream?: string
  /** Error statuses besides those that all endpoints share. */
  failures?: Record<number, string>
}

/** Sets of scopes, each from the fewest rights to the most. */
export const access = {
  agents: ['agent', 'admin'],
  readers: ['viewer', 'operator', 'admin'],
  everyone: ['agent', 'viewer', 'operator', 'admin'],
  operators: ['operator', 'admin'],
  admins: ['admin'],
} as const satisfies Record<string, readonly Scope[]>

/** Keeps the literal type of a row. */
export const define = <const Definition extends Endpoint>(definition: Definition): Definition => definition
