import type { TSchema } from 'typebox'

/** From the fewest rights to the most, after `agent`: each may do what those before it may. */
export const scopes = ['agent', 'viewer', 'approver', 'operator', 'admin'] as const
export type Scope = (typeof scopes)[number]
/** Scopes of keys; `approver` is for people. */
export const keyScopes = ['agent', 'viewer', 'operator', 'admin'] as const satisfies readonly Scope[]
export type KeyScope = (typeof keyScopes)[number]

/**
 * What a caller who is limited to the agents of a team gets: `agent` = the path names an agent, 404 unless it is of the
 * team; `agents` = the handler shows and reaches only agents of the team; `global` = says nothing of single agents, nor
 * how many there are; `refused` = 403, because it concerns all agents.
 */
type Teams = 'agent' | 'agents' | 'global' | 'refused'

/**
 * Key scopes that may call it. `open` needs no key; configuration decides whether `stream` and `metrics` need one. Admins
 * and agents are not limited to teams.
 */
type Access =
  | { access: readonly ('agent' | 'admin')[] | 'open'; teams?: undefined }
  | { access: readonly Scope[] | 'stream' | 'metrics'; teams: Teams }

/** One row of the endpoint table. */
export type Endpoint = EndpointParts & Access

interface EndpointParts {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Path with `:name` parameters. */
  path: string
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
  /** Set when the handler parses the body itself, because it comes in several forms. `json`: what a JSON body should be. */
  rawBody?: { contentTypes: readonly string[]; description: string; json?: TSchema }
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
  readers: ['viewer', 'approver', 'operator', 'admin'],
  everyone: ['agent', 'viewer', 'approver', 'operator', 'admin'],
  approvers: ['approver', 'operator', 'admin'],
  operators: ['operator', 'admin'],
  admins: ['admin'],
} as const satisfies Record<string, readonly Scope[]>

/** Keeps the literal type of a row. */
export const define = <const Definition extends Endpoint>(definition: Definition): Definition => definition
