import { describe, expect, it } from 'vitest'
import { chargeOf, type Estimate, estimate, priceOf, reservationOf } from './charges.ts'
import type { ExchangeResult } from './exchange.ts'
import { UsageReader } from './usage.ts'

const price = { input: 2, output: 10 }
const expected: Estimate = { input: 1_000_000, output: 1_000_000, price }

/** A generator of numbers below a limit, for a seed that failures name. */
function randomOf(seed: number): (below: number) => number {
  let state = (seed % 2_147_483_646) + 1
  return (below) => {
    state = (state * 48_271) % 2_147_483_647
    return state % below
  }
}

interface Streamed {
  kind: 'openai' | 'anthropic' | 'gemini'
  events: { text: string; output: number; isCounted: boolean }[]
  input: number
}

/** Returns a stream of a provider that counts four characters as a token, and what it has counted after each event. */
function streamed(random: (below: number) => number): Streamed {
  const kind = (['openai', 'anthropic', 'gemini'] as const)[random(3)]!
  const input = 1 + random(5_000)
  const events: Streamed['events'] = []
  let output = 0
  const add = (value: object, isCounted: boolean) =>
    events.push({ text: `event: x\ndata: ${JSON.stringify(value)}\n\n`, output, isCounted })
  if (kind === 'anthropic')
    add({ type: 'message_start', message: { usage: { input_tokens: input, output_tokens: 0 } } }, true)
  for (let rest = random(30); rest >= 0; rest--) {
    const tokens = 1 + random(20)
    const text = 'abc"'.repeat(tokens)
    output += tokens
    if (kind === 'openai') add({ choices: [{ delta: { content: text } }] }, false)
    else if (kind === 'gemini') {
      const usageMetadata = { promptTokenCount: input, candidatesTokenCount: output }
      add({ candidates: [{ content: { parts: [{ text }] } }], usageMetadata }, true)
    } else {
      add({ type: 'content_block_delta', delta: { type: 'text_delta', text } }, false)
      if (random(3) === 0 || rest === 0)
        add({ type: 'message_delta', delta: {}, usage: { output_tokens: output } }, true)
    }
  }
  if (kind === 'openai') add({ choices: [], usage: { prompt_tokens: input, completion_tokens: output } }, true)
  return { kind, events, input }
}

function resultOf({ kind }: Streamed, text: string, end: ExchangeResult['end'], size: number): ExchangeResult {
  const reader = new UsageReader(kind, true)
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size))
  const usage = reader.end()
  return { status: 200, end, usage, isSent: true, isStream: true, uncountedBytes: reader.uncountedBytes }
}

describe('the charge of a stream', () => {
  it('is what the provider counted, in 1,000 random streams that end or are cut', () => {
    const seed = Date.now()
    const random = randomOf(seed)
    let charged = 0
    let own = 0
    for (let round = 0; round < 1_000; round++) {
      const stream = streamed(random)
      const passed = random(3) === 0 ? stream.events.length : random(stream.events.length + 1)
      const isWhole = passed === stream.events.length
      const text = stream.events
        .slice(0, passed)
        .map((event) => event.text)
        .join('')
      const last = stream.events[passed - 1]
      const end = isWhole ? 'complete' : (['cut', 'left', 'broken'] as const)[random(3)]!
      const { tokens, nanoUsd, isEstimated } = chargeOf(expected, resultOf(stream, text, end, 1 + random(50)))
      const says = `seed ${seed}, round ${round}: ${stream.kind}, ${passed} of ${stream.events.length}`
      if (last?.isCounted) {
        expect([tokens, isEstimated], says).toEqual([stream.input + last.output, false])
        expect(nanoUsd, says).toBe((stream.input * price.input + last.output * price.output) * 1000)
        charged += tokens
        own += stream.input + last.output
      } else {
        // Never less than the provider: the estimate is one token for two bytes.
        expect(tokens, says).toBeGreaterThanOrEqual(stream.input + (last?.output ?? 0))
        expect(isEstimated, says).toBe(true)
      }
    }
    expect(charged).toBe(own)
  })

  it('is never less than what passed, in 10,000 cuts at random bytes', () => {
    const seed = Date.now()
    const random = randomOf(seed)
    for (let round = 0; round < 10_000; round++) {
      const stream = streamed(random)
      const whole = Buffer.from(stream.events.map((event) => event.text).join(''))
      const at = random(whole.length)
      let ends = 0
      const passed = stream.events.filter((event) => {
        ends += event.text.length
        return ends <= at
      })
      const charged = chargeOf(expected, resultOf(stream, whole.subarray(0, at).toString(), 'cut', 1 + random(500)))
      const says = `seed ${seed}, round ${round}: ${stream.kind}, byte ${at}`
      if (passed.length === 0) continue
      expect(charged.tokens, says).toBeGreaterThanOrEqual(stream.input + passed.at(-1)!.output)
    }
  })
})

const result: ExchangeResult = {
  status: 200,
  end: 'complete',
  usage: {},
  isSent: true,
  isStream: false,
  uncountedBytes: 0,
}
const reserved = reservationOf(expected)

it.each<[string, Partial<ExchangeResult>, number]>([
  ['was not sent', { isSent: false, status: 502, end: 'broken' }, 0],
  ['the provider refused', { status: 529 }, 0],
  ['the gateway refused', { status: 502, end: 'refused' }, 0],
  ['has no usage', {}, reserved.tokens],
  ['was cut before its answer', { status: 403, end: 'cut' }, reserved.tokens],
  ['was left before its answer', { status: null, end: 'left' }, reserved.tokens],
  ['is a stream without usage', { isStream: true, uncountedBytes: 40 }, reserved.tokens],
  ['is a stream cut before its first event', { isStream: true, end: 'cut' }, reserved.tokens],
  [
    'is a stream cut after its start',
    { isStream: true, end: 'cut', usage: { input_tokens: 7, output_tokens: 1 }, uncountedBytes: 9 },
    7 + 1 + 5,
  ],
])('a call that %s is charged %#', (_, given, tokens) => {
  expect(chargeOf(expected, { ...result, ...given }).tokens).toBe(tokens)
})

it('takes the first price that matches, and the context and output of the model into the estimate', () => {
  const small = { input: 1, output: 1, context: 100, max_output: 50 }
  const prices = [
    ['openai/gpt-5*', small],
    ['*/o3', price],
    ['*/*', { input: 9, output: 9 }],
  ] as const
  expect(priceOf(prices, 'openai', 'gpt-5-mini')?.[1]).toBe(small)
  expect(priceOf(prices, 'azure', 'o3')?.[1]).toBe(price)
  expect(priceOf(prices, 'azure', 'gpt-5')?.[1]).toEqual({ input: 9, output: 9 })
  expect(priceOf(prices.slice(0, 2), 'azure', 'gpt-5')).toBeUndefined()
  const body = { fault: undefined, model: 'm', namesFallbacks: false, maxOutputTokens: undefined, choices: 1 }
  expect(estimate(1_000, body, small)).toMatchObject({ input: 100, output: 50 })
  expect(estimate(11, { ...body, maxOutputTokens: 7, choices: 2 }, undefined)).toMatchObject({ input: 6, output: 14 })
  expect(estimate(1e9, body, undefined)).toMatchObject({ input: 1_000_000, output: 128_000 })
})
