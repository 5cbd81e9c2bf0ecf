import type { KeyCreated, KeyView } from '@wardline/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTestGateway } from '../../testing/model-gateway.ts'

let test: Awaited<ReturnType<typeof openTestGateway>>
let limited: KeyCreated

const create = async (models: string[] | undefined) =>
  (await test.service.call<KeyCreated>('POST', '/api/keys', { body: { scope: 'agent', instances: ['bot'], models } }))
    .body

beforeAll(async () => {
  test = await openTestGateway()
  limited = await create(['openai/gpt-5*', 'gemini/gemini-2.5-pro'])
})
afterAll(() => test[Symbol.asyncDispose]())

const chat = '/openai/v1/chat/completions'
const gemini = (model: string) => `/gemini/v1beta/models/${model}:generateContent`

it.each<[number, string, string, unknown?]>([
  [200, 'an allowed model', chat, { model: 'gpt-5-mini' }],
  [200, 'an allowed model of responses', '/openai/v1/responses', { input: 'x', model: 'gpt-5' }],
  [200, 'an allowed model in the path', gemini('gemini-2.5-pro'), { contents: [] }],
  [200, 'the same model in path and body', gemini('gemini-2.5-pro'), { model: 'models/gemini-2.5-pro' }],
  [403, 'another model', chat, { model: 'gpt-4o' }],
  [403, 'another model behind the text of an allowed one', chat, { messages: ['"model":"gpt-5"'], model: 'o3' }],
  [403, 'another model in the path', gemini('gemini-2.5-pro-x'), {}],
  [403, 'another model in the body', gemini('gemini-2.5-pro'), { model: 'models/gemini-3' }],
  [403, 'another upstream', '/anthropic/v1/messages', { model: 'gpt-5' }],
  [403, 'further models', chat, { model: 'gpt-5', models: ['o3'] }],
  [400, 'two models', chat, '{"model":"gpt-5","model":"o3"}'],
  [400, 'an escaped second model', chat, '{"model":"gpt-5","mod\\u0065l":"o3"}'],
  [400, 'no model', chat, { messages: [] }],
  [400, 'a body without JSON', chat, "{'model':'gpt-5'}"],
])('answers %i to a call of a limited key with %s', async (status, _, path, body) => {
  test.provider.received.length = 0
  const reply = await test.send(path, { key: limited.key, body })
  expect(reply.status).toBe(status)
  expect(test.provider.received).toHaveLength(status === 200 ? 1 : 0)
  if (status !== 200) expect((await reply.json()) as object).toMatchObject({ error: { message: expect.any(String) } })
})

it('lets a limited key read the models of its upstreams only', async () => {
  const get = (path: string) => test.send(path, { key: limited.key, method: 'GET' })
  expect((await get('/openai/v1/models')).status).toBe(200)
  expect((await get('/anthropic/v1/models')).status).toBe(403)
})

it('passes every body of a key without a limit on, and a limit on to the rotated key', async () => {
  const { key } = await create(undefined)
  for (const body of [{ model: 'o3' }, '{"model":"a","model":"b"}', 'no json']) {
    expect((await test.send(chat, { key, body })).status).toBe(200)
  }
  const rotated = await test.service.call<KeyCreated>('POST', `/api/keys/${limited.id}/rotate`, { body: {} })
  expect((await test.send(chat, { key: rotated.body.key, body: { model: 'o3' } })).status).toBe(403)
  const { body } = await test.service.call<{ keys: KeyView[] }>('GET', '/api/keys')
  const models = body.keys.filter(({ id }) => [limited.id, rotated.body.id].includes(id)).map((view) => view.models)
  expect(models).toEqual([1, 2].map(() => ['gemini/gemini-2.5-pro', 'openai/gpt-5*']))
})

it('names the model of the whole body in the event of the call', async () => {
  const { key } = await create(undefined)
  const pad = 'x'.repeat(100_000)
  await (await test.send(chat, { key, body: { a: pad, model: 'in-the-middle', b: pad } })).text()
  await test.service.services.ingest.whenIdle()
  const { body } = await test.service.call<{ events: object[] }>('GET', '/api/events?event_type=model_call')
  expect(body.events[0]).toMatchObject({ metadata: { model: 'in-the-middle' } })
})

it.each([
  ['operator', ['openai/*'], 'models must be absent for scope operator'],
  ['agent', [], 'models'],
  ['agent', ['gpt-5'], 'models.0 must be an upstream, a slash'],
  ['agent', ['openai/*x'], 'models.0 must be an upstream, a slash'],
  ['agent', ['*'], 'models.0 must be an upstream, a slash'],
])('refuses a key of scope %s with the models %j', async (scope, models, sentence) => {
  const more = scope === 'agent' ? { instances: ['bot'] } : { name: 'x' }
  const reply = await test.service.call<{ error: string }>('POST', '/api/keys', { body: { scope, models, ...more } })
  expect(reply.status).toBe(400)
  expect(JSON.stringify(reply.body)).toContain(sentence)
})
