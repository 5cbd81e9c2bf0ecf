import { type Static, Type } from 'typebox'
import { EventRow, SeverityCounts } from './events.ts'

/** A message of GET /api/stream, as the JSON of one `data:` line. */
export const StreamMessage = Type.Union([
  Type.Object({ type: Type.Literal('heartbeat') }),
  Type.Object({ type: Type.Literal('event'), data: EventRow }),
  Type.Object({ type: Type.Literal('stats'), data: SeverityCounts }),
])
export type StreamMessage = Static<typeof StreamMessage>
