import type { Static } from 'typebox'
import { ControlChange } from './control.ts'
import { define } from './endpoint.ts'
import { EventRow, SeverityCounts } from './events.ts'
import { choice, nullable } from './fields.ts'
import { Type } from './type.ts'

/** A streamed event: stored, or published by another program on the events channel. */
export const StreamedRow = Type.Object({
  ...EventRow.properties,
  seq: nullable(
    Type.Integer({
      minimum: 1,
      description:
        'Null for an event that another program published: it is shown but not stored, so streams cannot resume from it, lists and counts omit it, and its id and time are as that program gave them',
    }),
  ),
})
export type StreamedRow = Static<typeof StreamedRow>

/** A message of GET /api/stream: the JSON of one `data:` line. */
export const StreamMessage = Type.Union([
  Type.Object({ type: Type.Literal('heartbeat') }),
  Type.Object({ type: Type.Literal('event'), data: StreamedRow }),
  Type.Object({ type: Type.Literal('stats'), data: SeverityCounts }),
])
export type StreamMessage = Static<typeof StreamMessage>

const StreamQuery = Type.Object({
  include: Type.Optional(
    choice(
      ['control'],
      'Also kills and resumes, as the named event `control`; needs a key that may read, even if the stream is open',
    ),
  ),
})

/** The JSON of the named event `control`, for streams that request it. */
export const ControlStreamMessage = Type.Object({ type: Type.Literal('control'), data: ControlChange })

export const streamEndpoints = {
  streamEvents: define({
    method: 'GET',
    path: '/api/stream',
    access: 'stream',
    teams: 'agents',
    feature: 'stream',
    summary: 'Stream live events',
    keyedBy: 'include',
    query: StreamQuery,
    headers: { 'last-event-id': 'Resume after this seq' },
    status: 200,
    eventStream:
      'With `include=control`, each kill and resume comes as the named event `control` with { type, data }, data as in GET /api/control-changes and without an `id:`. The stream does not repeat them: after each connection, read GET /api/control-changes with `after`, and ignore a seq that was already received. Each `data:` line is { type, data }: `heartbeat` first and every 30 seconds, `event` with the stored row, `stats` with severity counts. `id:` is the row’s seq. A client that resumes more than 10,000 events behind first receives the named event `gap` with { after, resumes_after }. A caller limited to a team, also where the stream needs no key, receives only the stored events and control changes of its agents, and no `stats`',
    failures: {
      401: 'With `include`: missing or invalid key',
      403: 'With `include`: the key may not read',
      503: 'Too many streams',
    },
  }),
}
