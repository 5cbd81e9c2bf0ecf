import type { TSchema } from 'typebox'

export const scopes = ['agent', 'viewer', 'operator', 'admin'] as const
export type Scope = (typeof scopes)[number]

/** One row of the endpoint table. */
export interface Endpoint {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Path with `:name` parameters. */
  path: string
  /** Key scopes that may call it; `open` needs no key, the others are open or not by configuration. */
  access: readonly Scope[] | 'open' | 'stream' | 'metrics'
  /** Query parameter with which a reader's key is needed even where the endpoint is open. */
  keyedBy?: string
  feature: string
  summary: string
  params?: TSchema
  query?: TSchema
  body?: TSchema
  /** The body may also be YAML, which the handler gets as `{ rule: <text> }`. */
  yaml?: boolean
  /** A body that the handler reads itself, because it comes in several forms. */
  rawBody?: { contentTypes: readonly string[]; description: string }
  /** Request headers with a meaning, by name. */
  headers?: Record<string, string>
  /** Headers of a reply of success, by name. */
  replyHeaders?: Record<string, string>
  /** The reply of success: its status, and its schema unless it is text, a file or a stream. */
  status: 200 | 201
  /** Where a success may also be one that changed nothing: 200 instead of 201, and what that means. */
  unchanged?: string
  reply?: TSchema
  text?: string
  /** Bytes to store. */
  file?: { contentType: string; description: string }
  /** Server-Sent Events instead of one JSON body. */
  eventStream?: string
  /** Statuses of failure besides those that every endpoint shares. */
  failures?: Record<number, string>
}

/** Scopes that may call an endpoint, from the fewest rights to the most. */
export const access = {
  agents: ['agent', 'admin'],
  readers: ['viewer', 'operator', 'admin'],
  everyone: ['agent', 'viewer', 'operator', 'admin'],
  operators: ['operator', 'admin'],
  admins: ['admin'],
} as const satisfies Record<string, readonly Scope[]>

/** Keeps the exact type of a row. */
export const define = <const Definition extends Endpoint>(definition: Definition): Definition => definition
