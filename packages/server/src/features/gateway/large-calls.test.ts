import { createHash } from 'node:crypto'
import type { EventRow } from '@wardline/contract'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { openTestGateway } from '../../testing/model-gateway.ts'
import { sliceUnits, WorkBudget } from '../../work-turns.ts'
import { AnswerTexts } from './answer-texts.ts'
import { CallBodyReader, CallBytes } from './call-body.ts'
import { KeyTexts } from './key-texts.ts'
import { UsageReader } from './usage.ts'

const mebibyte = 1024 * 1024
/** What a connection may bring in one turn: its buffer and what arrived while that was passed on. */
const maxInTurn = 256 * 1024
const chat = '/openai/v1/chat/completions'

let test: Awaited<ReturnType<typeof openTestGateway>>
let key: string
beforeAll(async () => {
  test = await openTestGateway()
  key = (await test.service.createKey('agent', ['bot'])).key
})
afterAll(() => test[Symbol.asyncDispose]())
afterEach(() => vi.restoreAllMocks())

/** Counts bytes that a reader gets, by the turn of the event loop. */
function bytesByTurn(reader: { push(chunk: Buffer): void }) {
  let isCounting = true
  let turn = 0
  const count = () => {
    turn += 1
    if (isCounting) setImmediate(count)
  }
  count()
  const bytes = new Map<number, number>()
  const { push } = reader
  vi.spyOn(reader, 'push').mockImplementation(function (this: typeof reader, chunk) {
    bytes.set(turn, (bytes.get(turn) ?? 0) + chunk.length)
    return push.call(this, chunk)
  })
  return () => {
    isCounting = false
    return [...bytes.values()]
  }
}

const sumOf = (counts: readonly number[]) => counts.reduce((sum, each) => sum + each, 0)
const digestOf = (text: string) => createHash('sha256').update(text).digest('hex')
async function lastCall(): Promise<EventRow> {
  await test.service.services.ingest.whenIdle()
  const { body } = await test.service.call<{ events: EventRow[] }>('GET', '/api/events?event_type=model_call&limit=1')
  return body.events[0]!
}

it('passes a body of the maximum size on unchanged, and reads it in pieces for each turn of the event loop', async () => {
  // Many short keys are the most work for each byte.
  const pair = '"a":0,'
  const body = `{${pair.repeat(Math.floor((32 * mebibyte) / pair.length) - 4)}"model":"m-1"}`
  const counted = bytesByTurn(CallBodyReader.prototype)
  expect((await test.send(chat, { key, body })).status).toBe(200)
  const pieces = counted()
  expect(sumOf(pieces)).toBe(body.length)
  expect(Math.max(...pieces)).toBeLessThanOrEqual(maxInTurn)
  expect(digestOf(test.provider.received.at(-1)!.body)).toBe(digestOf(body))
})

describe.each([
  ['application/json', `{"x":[${'{"a":1},'.repeat(2 * mebibyte)}1],"usage":{"prompt_tokens":7,"completion_tokens":9}}`],
  [
    'text/event-stream',
    `data: {"x":"${'a'.repeat(3 * mebibyte)}","usage":{"prompt_tokens":7,"completion_tokens":9}}\n\n`.repeat(5),
  ],
])('an answer of 15 MiB of %s', (type, text) => {
  it('passes unchanged in pieces for each turn of the event loop, and has its usage', async () => {
    test.answer = ({ response }) => void response.writeHead(200, { 'content-type': type }).end(text)
    const warnings: Error[] = []
    const warn = (warning: Error) => void warnings.push(warning)
    process.on('warning', warn)
    const counted = bytesByTurn(UsageReader.prototype)
    const answer = await (await test.send(chat, { key })).text()
    const pieces = counted()
    process.off('warning', warn)
    // For example of listeners that are added with each chunk.
    expect(warnings).toEqual([])
    expect(digestOf(answer)).toBe(digestOf(text))
    expect(sumOf(pieces)).toBe(text.length)
    expect(Math.max(...pieces)).toBeLessThanOrEqual(maxInTurn)
    expect((await lastCall()).metadata).toMatchObject({ end: 'complete', input_tokens: 7, output_tokens: 9 })
  })
})

// Attack: what is the most work to search for each byte.
it.each([
  ['lines without an event', true, 'data:\n'],
  ['small events', true, 'data: {"delta":"a"}\n\n'],
  ['invalid events', true, 'data: {"delta":}\n\n'],
  ['events with many lists', true, `data: {"a":[${'[],'.repeat(5_000)}1]}\n\n`],
  ['events of a list', false, '[{"text":"a"},{},{},{}'],
  ['escapes', false, String.raw`\\`],
  ['escaped escapes', false, String.raw`\\u0041`],
  ['marks of keys', false, 'AKIA'],
])('searches %s in slices', (_, isStream, text) => {
  const budget = new WorkBudget(Infinity)
  const reader = new AnswerTexts(new KeyTexts(() => {}), isStream, () => {})
  const chunk = Buffer.from(text.repeat(Math.ceil((128 * 1024) / text.length)))
  let before = 0
  for (const work of [reader.read(chunk, budget), reader.end(budget)]) {
    for (let step = work.next(); ; step = work.next()) {
      expect(budget.spent - before).toBeLessThanOrEqual(3 * sliceUnits)
      before = budget.spent
      if (step.done) break
    }
  }
  expect(budget.spent).toBeGreaterThan(sliceUnits)
})

it('keeps a body that arrives byte by byte in blocks', () => {
  const text = 'The body of a call. '.repeat(20_000)
  const bytes = new CallBytes()
  for (const byte of Buffer.from(text)) bytes.push(Buffer.of(byte))
  expect(bytes.length).toBe(text.length)
  expect(Buffer.concat(bytes.blocks).toString()).toBe(text)
  expect(bytes.blocks.length).toBeLessThan(20)
  expect(Math.max(...bytes.blocks.map((block) => block.length))).toBeLessThanOrEqual(64 * 1024)
})
