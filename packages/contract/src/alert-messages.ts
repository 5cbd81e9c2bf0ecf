import type { Static } from 'typebox'
import { ChannelId, Replayed } from './alert-channels.ts'
import { channelTypes } from './channel-kinds.ts'
import { access, define } from './endpoint.ts'
import { Count, choice, limits, nullable, Severity, Timestamp, UpTo, Uuid } from './fields.ts'
import { Type } from './type.ts'

export const messageKinds = ['alert', 'digest', 'reminder', 'resolved', 'test', 'check'] as const
export const MessageQuery = Type.Object({
  channel_id: Type.Optional(ChannelId),
  state: Type.Optional(choice(['pending', 'delivered', 'dead'])),
  before: Type.Optional(Uuid),
  limit: Type.Optional(UpTo(1000, 'Messages a page, 1 to 1000; default: 100')),
})
export type MessageQuery = Static<typeof MessageQuery>
export const MessageView = Type.Object({
  id: Uuid,
  channel_id: ChannelId,
  person_id: nullable(Type.String({ description: 'The person that gets a mail; null: the receivers of the channel' })),
  kind: choice(messageKinds),
  title: Type.String(),
  severity: Severity,
  state: choice(['pending', 'delivered', 'dead']),
  attempts: Count,
  created_at: Timestamp,
  due_at: nullable(Timestamp),
  delivered_at: nullable(Timestamp),
  last_status: nullable(Type.Integer()),
  last_answer: nullable(Type.String()),
  last_error: nullable(Type.String()),
})
export type MessageView = Static<typeof MessageView>
const MessageList = Type.Object({ messages: Type.Array(MessageView), next: nullable(Uuid) })

const MessageParams = Type.Object({ id: Uuid })

const MessageContent = Type.Object({
  id: Uuid,
  channel_id: ChannelId,
  channel_type: choice(channelTypes),
  content_type: Type.String({ description: 'Of the body' }),
  body: Type.String({
    description:
      "What the receiver gets, composed again from the stored message by the code that sends it: the same text unless the channel's settings, WARDLINE_PUBLIC_URL or the version changed since. Settings stand as `[secret]`; of a mail it is the subject and the text part",
  }),
  cut: Type.Boolean({
    description: `The body is longer than ${limits.shownContent} characters, and only these are here`,
  }),
})
export type MessageContent = Static<typeof MessageContent>

export const messageEndpoints = {
  listMessages: define({
    method: 'GET',
    path: '/api/alert-messages',
    access: access.readers,
    teams: 'refused',
    feature: 'alerts',
    summary: 'List messages, newest first: where each was sent, and the answer of the receiver',
    query: MessageQuery,
    status: 200,
    reply: MessageList,
  }),
  replayMessage: define({
    method: 'POST',
    path: '/api/alert-messages/:id/replay',
    access: access.operators,
    teams: 'refused',
    feature: 'alerts',
    summary: 'Retry an undelivered message',
    params: MessageParams,
    status: 200,
    reply: Replayed,
    failures: { 404: 'Unknown message' },
  }),
  getMessageContent: define({
    method: 'GET',
    path: '/api/alert-messages/:id/content',
    access: access.readers,
    teams: 'refused',
    feature: 'alerts',
    summary: 'Get a message as its channel receives it, without secrets',
    params: MessageParams,
    status: 200,
    reply: MessageContent,
    failures: { 404: 'Unknown message, or its channel was deleted' },
  }),
}
