import { once } from 'node:events'
import { request as startRequest } from 'node:http'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { effort } from '../../../../../test-servers/effort.ts'
import { seededChoices } from '../../../../../test-servers/seeded-draws.ts'
import { openCalledGateway } from '../../testing/called-gateway.ts'

const seed = Number(process.env.SEED ?? Date.now() % 100_000)
const cuts = effort(2_000, 10_000)
const parallel = 50
/** A kill takes longer than the other cuts, as it is stored. */
const cutsPerKill = 100

type Choices = ReturnType<typeof seededChoices>
interface Usage {
  input_tokens?: number
  output_tokens?: number
}
/** A line of a stream, and what the provider has counted once it is complete. */
interface Line {
  text: string
  usage?: Usage
}

/** Text of an answer that looks like usage and has characters of several bytes. */
const content = '"usage":{"output_tokens":999} "type":"message_delta" data: {"usageMetadata":{}} ☂'
const data = (value: object) => `data: ${JSON.stringify(value)}\n\n`
/** Cumulative, as providers count. */
const counts = ({ between }: Choices) =>
  Array.from({ length: between(1, 5) }, (_, place) => place * 50 + between(1, 50))

const protocols: Record<string, { path: string; lines(choices: Choices): Line[] }> = {
  'chat completions': {
    path: '/openai/v1/chat/completions',
    lines: (choices) => [
      ...counts(choices).map((completion_tokens) => ({
        text: data({ choices: [{ delta: { content } }], usage: { prompt_tokens: 7, completion_tokens } }),
        usage: { input_tokens: 7, output_tokens: completion_tokens },
      })),
      { text: data({ choices: [{ delta: {}, finish_reason: 'stop' }], usage: null }) },
      { text: 'data: [DONE]\n\n' },
    ],
  },
  responses: {
    path: '/openai/v1/responses',
    lines: (choices) => {
      const [output_tokens = 0] = counts(choices)
      const usage = { input_tokens: 7, output_tokens }
      return [
        { text: data({ type: 'response.created', response: { object: 'response', usage: null } }) },
        ...counts(choices).map(() => ({ text: data({ type: 'response.output_text.delta', delta: content }) })),
        { text: data({ type: 'response.completed', response: { object: 'response', usage } }), usage },
      ]
    },
  },
  messages: {
    path: '/anthropic/v1/messages',
    lines: (choices) => [
      {
        text: data({
          type: 'message_start',
          message: { usage: { input_tokens: 3, cache_read_input_tokens: 4, output_tokens: 1 } },
        }),
        usage: { input_tokens: 7, output_tokens: 1 },
      },
      ...counts(choices).flatMap((output_tokens) => [
        { text: data({ type: 'content_block_delta', delta: { type: 'text_delta', text: content } }) },
        { text: data({ type: 'message_delta', delta: {}, usage: { output_tokens } }), usage: { output_tokens } },
      ]),
      { text: data({ type: 'message_stop' }) },
    ],
  },
  generateContent: {
    path: '/gemini/v1beta/models/{model}:streamGenerateContent?alt=sse',
    lines: (choices) =>
      counts(choices).map((candidatesTokenCount) => ({
        text: data({
          candidates: [{ content: { parts: [{ text: content }] } }],
          usageMetadata: { promptTokenCount: 7, candidatesTokenCount, thoughtsTokenCount: 2 },
        }),
        usage: { input_tokens: 7, output_tokens: candidatesTokenCount + 2 },
      })),
  },
}

/** Returns what the last line that is complete within the first `bytes` says. */
function usageIn(lines: readonly Line[], bytes: number): Usage {
  let usage: Usage = {}
  let start = 0
  for (const { text, usage: counted } of lines) {
    if (start + Buffer.byteLength(text.trimEnd()) <= bytes) usage = { ...usage, ...counted }
    start += Buffer.byteLength(text)
  }
  return usage
}

interface Cut {
  model: string
  path: string
  lines: Line[]
  bytes: number
  by: 'provider' | 'client' | 'kill'
}

let gateway: Awaited<ReturnType<typeof openCalledGateway>>
const cutsByModel = new Map<string, Cut>()

beforeAll(async () => {
  console.log(`SEED=${seed}`)
  gateway = await openCalledGateway(({ path, body, response }) => {
    const model = /cut-\d+/.exec(body + path)![0]
    const { lines, bytes, by } = cutsByModel.get(model)!
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(Buffer.from(lines.map(({ text }) => text).join('')).subarray(0, bytes))
    if (by === 'provider') response.socket!.destroySoon()
  })
})
afterAll(() => gateway[Symbol.asyncDispose]())

/** Makes the call of a cut; resolves once the client has all that came, with the connection cut unless by a kill. */
async function call({ model, path, bytes, by }: Cut): Promise<{ closed: Promise<unknown> }> {
  const request = startRequest(`${gateway.url}${path.replace('{model}', model)}`, {
    method: 'POST',
    headers: { 'x-api-key': gateway.key },
  })
  const closed = new Promise((resolve) => request.once('close', resolve))
  request.on('error', () => {})
  request.end(JSON.stringify({ model }))
  const [response] = await once(request, 'response')
  response.on('error', () => {})
  let received = 0
  const isReceived = new Promise<void>((resolve) =>
    response.on('data', (chunk: Buffer) => {
      received += chunk.length
      if (received >= bytes) resolve()
    }),
  )
  await (by === 'provider' ? closed : isReceived)
  if (by === 'client') request.destroy()
  return { closed }
}

it(`has the usage that the provider had said before each of ${cuts} cuts at random bytes`, async () => {
  const choices = seededChoices(seed)
  const wrong: unknown[] = []
  for (let first = 0; first < cuts; first += parallel) {
    const batch = Array.from({ length: parallel }, (_, place): Cut => {
      const { path, lines: linesOf } = choices.pick(Object.values(protocols))
      const lines = linesOf(choices)
      const bytes = choices.between(1, Buffer.byteLength(lines.map(({ text }) => text).join('')))
      const isKilled = (first + place) % cutsPerKill === 0
      const by = isKilled ? 'kill' : choices.pick(['provider', 'client'] as const)
      return { model: `cut-${first + place}`, path, lines, bytes, by }
    })
    for (const cut of batch) cutsByModel.set(cut.model, cut)
    const ended = await Promise.all(batch.map(call))
    if (batch.some(({ by }) => by === 'kill')) await gateway.kill()
    await Promise.all(ended.map(({ closed }) => closed))
    const models = new Set(batch.map(({ model }) => model))
    const recorded = async () =>
      (await gateway.calls(parallel)).filter(({ metadata }) => models.has(String(metadata?.model)))
    await expect.poll(async () => (await recorded()).length).toBe(parallel)
    for (const { metadata } of await recorded()) {
      const { model, lines, bytes, by } = cutsByModel.get(String(metadata!.model))!
      const { input_tokens, output_tokens, end } = metadata ?? {}
      const seen = JSON.stringify([end, { input_tokens, output_tokens }])
      const expected = JSON.stringify([
        { provider: 'broken', client: 'left', kill: 'cut' }[by],
        { input_tokens: undefined, output_tokens: undefined, ...usageIn(lines, bytes) },
      ])
      if (seen !== expected) wrong.push({ model, bytes, by, seen, expected })
    }
    cutsByModel.clear()
    await gateway.resume()
  }
  expect(wrong).toEqual([])
})
