import { type Static, Type } from 'typebox'
import { EventRow, SeverityCounts } from './events.ts'
import { nullable } from './fields.ts'

/** An event as it is streamed: stored, or published by another program on the events channel. */
export const StreamedRow = Type.Object({
  ...EventRow.properties,
  seq: nullable(
    Type.Integer({
      minimum: 1,
      description:
        'Null for what another program published: it is shown as it came and not stored, so it has no place to resume from, stands in no list and no count, and its id and time are that program’s word',
    }),
  ),
})
export type StreamedRow = Static<typeof StreamedRow>

/** A message of GET /api/stream, as the JSON of one `data:` line. */
export const StreamMessage = Type.Union([
  Type.Object({ type: Type.Literal('heartbeat') }),
  Type.Object({ type: Type.Literal('event'), data: StreamedRow }),
  Type.Object({ type: Type.Literal('stats'), data: SeverityCounts }),
])
export type StreamMessage = Static<typeof StreamMessage>
