import type { ServerResponse } from 'node:http'

/** The text of an answer, as every stream here says it: in two parts. */
export const saidFirst = 'The weather '
export const said = `${saidFirst}is fine.`
const [, saidLast = ''] = said.split(saidFirst)

/** The events of one answer, each as it is on the wire. */
type Events = string[]

const data = (value: object) => `data: ${JSON.stringify(value)}\n\n`
const named = (value: { type: string; sequence_number?: number }) => `event: ${value.type}\n${data(value)}`

// https://platform.openai.com/docs/api-reference/chat/streaming
const chunk = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1_700_000_000, model: 'm-1' }
const choice = (delta: object, finish_reason: string | null = null) =>
  data({ ...chunk, choices: [{ index: 0, delta, logprobs: null, finish_reason }], usage: null })
const chat: Events = [
  choice({ role: 'assistant', content: '', refusal: null }),
  choice({ content: saidFirst }),
  choice({ content: saidLast }),
  choice({}, 'stop'),
  data({ ...chunk, choices: [], usage: { prompt_tokens: 12, completion_tokens: 5, total_tokens: 17 } }),
  'data: [DONE]\n\n',
]

// https://platform.openai.com/docs/api-reference/responses-streaming
const response = { id: 'resp_1', object: 'response', created_at: 1_700_000_000, model: 'm-1', error: null, tools: [] }
const inItem = { item_id: 'msg_1', output_index: 0, content_index: 0 }
const part = (text: string) => ({ type: 'output_text', text, annotations: [] })
const item = (status: string, ...content: object[]) => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  status,
  content,
})
const responses: Events = [
  { type: 'response.created', response: { ...response, status: 'in_progress', output: [], usage: null } },
  { type: 'response.output_item.added', output_index: 0, item: item('in_progress') },
  { type: 'response.content_part.added', ...inItem, part: part('') },
  { type: 'response.output_text.delta', ...inItem, delta: saidFirst },
  { type: 'response.output_text.delta', ...inItem, delta: saidLast },
  { type: 'response.output_text.done', ...inItem, text: said },
  { type: 'response.content_part.done', ...inItem, part: part(said) },
  { type: 'response.output_item.done', output_index: 0, item: item('completed', part(said)) },
  {
    type: 'response.completed',
    response: {
      ...response,
      status: 'completed',
      output: [item('completed', part(said))],
      usage: {
        input_tokens: 12,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: 5,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 17,
      },
    },
  },
].map((event, sequence_number) => named({ ...event, sequence_number }))

// https://docs.claude.com/en/docs/build-with-claude/streaming
const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'm-1', stop_sequence: null }
const anthropicUsage = { input_tokens: 5, cache_creation_input_tokens: 0, cache_read_input_tokens: 7, output_tokens: 1 }
const textDelta = (text: string) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } })
const messages: Events = [
  { type: 'message_start', message: { ...message, content: [], stop_reason: null, usage: anthropicUsage } },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'ping' },
  textDelta(saidFirst),
  textDelta(saidLast),
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 5 } },
  { type: 'message_stop' },
].map(named)

// https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
const candidate = (text: string, more = {}) => ({ content: { parts: [{ text }], role: 'model' }, index: 0, ...more })
const generate: Events = [
  { candidates: [candidate(saidFirst)], usageMetadata: { promptTokenCount: 12, totalTokenCount: 12 } },
  {
    candidates: [candidate(saidLast, { finishReason: 'STOP' })],
    usageMetadata: { promptTokenCount: 12, candidatesTokenCount: 5, totalTokenCount: 17 },
  },
].map((part) => data({ ...part, modelVersion: 'm-1', responseId: 'r-1' }))

const streams: Record<string, Events> = {
  '/v1/chat/completions': chat,
  '/v1/responses': responses,
  '/v1/messages': messages,
  '/v1/models/m-1:streamGenerateContent': generate,
}
const wholes: Record<string, object> = {
  '/v1/messages/count_tokens': { input_tokens: 12 },
  '/v1/models/m-1:generateContent': {
    candidates: [candidate(said, { finishReason: 'STOP' })],
    usageMetadata: { promptTokenCount: 12, candidatesTokenCount: 5, totalTokenCount: 17 },
  },
}

/** Answers as a provider does, and returns how the answer goes on after its middle: it waits there for a call of it. */
export function answerHalf(path: string, answer: ServerResponse): () => void {
  const [route = ''] = path.replace('/v1beta/', '/v1/').split('?')
  const events = streams[route]
  const text = events?.join('') ?? JSON.stringify(wholes[route])
  // Just after the first part of the text, or within the only JSON.
  const middle = events ? text.indexOf('\n\n', text.indexOf(saidFirst)) + 2 : text.length >> 1
  answer.writeHead(200, { 'content-type': events ? 'text/event-stream; charset=utf-8' : 'application/json' })
  answer.write(text.slice(0, middle))
  return () => answer.end(text.slice(middle))
}
