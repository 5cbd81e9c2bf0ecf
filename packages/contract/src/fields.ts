import { type Static, type TSchema, Type } from 'typebox'

/** A string out of a closed list; an error message can name the whole list. */
export function choice<const Values extends readonly string[]>(values: Values, description?: string) {
  return Type.Unsafe<Values[number]>({ enum: [...values], ...(description ? { description } : {}) })
}

/** A value or null. Written as a type list, which JSON Schema 2020-12 and OpenAPI 3.1 both know. */
export function nullable<Schema extends TSchema>(schema: Schema) {
  return Type.Unsafe<Static<Schema> | null>(Type.Union([schema, Type.Null()]))
}

/** Lengths count code points, not bytes or UTF-16 units. */
export const limits = {
  instanceId: 64,
  name: 80,
  reason: 500,
  source: 100,
  eventType: 100,
  description: 1000,
  /** Correlation ids are short; more would only bloat the index. */
  sessionId: 200,
  /** Bytes of JSON: enough for a tool call's redacted arguments. */
  metadataBytes: 16 * 1024,
  /** JSON.stringify fails on very deep values, so nothing deeper may be stored. */
  jsonDepth: 16,
  bodyBytes: 256 * 1024,
  batchBytes: 1024 * 1024,
  batchEvents: 1000,
  pageSize: 1000,
  idempotencyKey: 200,
  decoyPath: 1024,
  label: 1000,
  /** Matching work grows with the input; longer text is cut by the caller into parts. */
  checkedKey: 64 * 1024,
  checkedPath: 4096,
} as const

export const Timestamp = Type.String({ format: 'date-time', description: 'ISO 8601, UTC' })
export const Count = Type.Integer({ minimum: 0 })
export const InstanceId = Type.String({
  pattern: '^[a-z0-9_-]+$',
  maxLength: limits.instanceId,
  description: 'Lower-case letters, digits, _ and -',
  examples: ['support-bot-1'],
})
export const Uuid = Type.String({
  pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$',
  description: 'UUID',
})
export const InstanceParams = Type.Object({ instanceId: InstanceId })

export const severities = ['info', 'warning', 'critical', 'breach'] as const
export const Severity = choice(severities)
export type Severity = (typeof severities)[number]

export const Ok = Type.Object({ ok: Type.Literal(true) })
export const ErrorReply = Type.Object({ error: Type.String({ description: 'One plain sentence' }) })
