import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAI } from '@ai-sdk/openai'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import { ChatOpenAI } from '@langchain/openai'
import { type LanguageModel, streamText } from 'ai-v7'
import OpenAI from 'openai'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { openCalledGateway } from '../../testing/called-gateway.ts'
import { answerHalf, said, saidFirst } from '../../testing/model-streams.ts'

type TestGateway = Awaited<ReturnType<typeof openCalledGateway>>

interface Asked {
  /** Of the upstream, at the gateway. */
  baseURL: string
  apiKey: string
  /** Default: as the client has it. */
  retries?: number
  /** Is called with what arrived, each time that more of the answer arrives. */
  onText: (text: string) => void
}

interface Client {
  name: string
  upstream: string
  path?: string
  /** What it returns of an answer that is no stream. */
  whole?: unknown
  /** Whether budgets count its calls; true by default. */
  isCounted?: false
  /** What it does after a refusal of a budget, which says that a retry is refused too. */
  afterBudget?: 'retries'
  /** What it does after a 503. */
  after503?: 'gives up'
  /** Asks for an answer as programs do; resolves once the client takes the answer for finished. */
  ask(asked: Asked): Promise<unknown>
}

const retriesOf = ({ retries }: Asked) => (retries === undefined ? {} : { maxRetries: retries })
const prompt = 'How is the weather?'
const turns = [{ role: 'user' as const, content: prompt }]
const request = { model: 'm-1', messages: turns }

async function readAll(parts: AsyncIterable<string>, onText: Asked['onText']): Promise<string> {
  let text = ''
  for await (const part of parts) {
    text += part
    if (part !== '') onText(text)
  }
  return text
}

async function* map<Part>(parts: AsyncIterable<Part>, textOf: (part: Part) => string | null | undefined) {
  for await (const part of parts) yield textOf(part) ?? ''
}

async function askAiSdk(model: LanguageModel, asked: Asked): Promise<unknown> {
  const faults: unknown[] = []
  const result = streamText({ model, prompt, ...retriesOf(asked), onError: ({ error }) => void faults.push(error) })
  const text = await readAll(result.textStream, asked.onText)
  if (faults.length > 0) throw faults[0]
  expect(await result.finishReason).toBe('stop')
  return text
}

const openai = (asked: Asked) => new OpenAI({ ...asked, ...retriesOf(asked) })
const anthropic = (asked: Asked) => new Anthropic({ ...asked, ...retriesOf(asked) })
const gemini = ({ baseURL, apiKey }: Asked) => new GoogleGenAI({ apiKey, httpOptions: { baseUrl: baseURL } })

const clients: Client[] = [
  {
    name: 'openai, chat completions',
    upstream: 'openai',
    path: '/v1',
    ask: async (asked) => {
      const stream = await openai(asked).chat.completions.create({ ...request, stream: true })
      return readAll(
        map(stream, ({ choices }) => choices[0]?.delta.content),
        asked.onText,
      )
    },
  },
  {
    name: 'openai, responses',
    upstream: 'openai',
    path: '/v1',
    ask: async (asked) => {
      const stream = openai(asked).responses.stream({ model: 'm-1', input: prompt })
      await readAll(
        map(stream, (event) => (event.type === 'response.output_text.delta' ? event.delta : '')),
        asked.onText,
      )
      return (await stream.finalResponse()).output_text
    },
  },
  {
    name: '@anthropic-ai/sdk, messages',
    upstream: 'anthropic',
    ask: async (asked) => {
      const stream = anthropic(asked).messages.stream({ ...request, max_tokens: 100 })
      stream.on('text', (_, text) => asked.onText(text))
      return stream.finalText()
    },
  },
  {
    name: '@anthropic-ai/sdk, count_tokens',
    upstream: 'anthropic',
    whole: 12,
    isCounted: false,
    ask: async (asked) => (await anthropic(asked).messages.countTokens(request)).input_tokens,
  },
  {
    name: '@google/genai, generateContent',
    upstream: 'gemini',
    after503: 'gives up',
    whole: said,
    ask: async (asked) => (await gemini(asked).models.generateContent({ model: 'm-1', contents: prompt })).text,
  },
  {
    name: '@google/genai, generateContentStream',
    upstream: 'gemini',
    after503: 'gives up',
    ask: async (asked) => {
      const stream = await gemini(asked).models.generateContentStream({ model: 'm-1', contents: prompt })
      return readAll(
        map(stream, ({ text }) => text),
        asked.onText,
      )
    },
  },
  {
    name: 'AI SDK with @ai-sdk/openai, responses',
    upstream: 'openai',
    afterBudget: 'retries',
    path: '/v1',
    ask: (asked) => askAiSdk(createOpenAI(asked)('m-1'), asked),
  },
  {
    name: 'AI SDK with @ai-sdk/openai, chat completions',
    upstream: 'openai',
    afterBudget: 'retries',
    path: '/v1',
    ask: (asked) => askAiSdk(createOpenAI(asked).chat('m-1'), asked),
  },
  {
    // This package alone takes a base address that ends with the version.
    name: 'AI SDK with @ai-sdk/anthropic',
    upstream: 'anthropic',
    afterBudget: 'retries',
    path: '/v1',
    ask: (asked) => askAiSdk(createAnthropic(asked)('m-1'), asked),
  },
  {
    name: 'LangChain',
    upstream: 'openai',
    path: '/v1',
    ask: async (asked) => {
      const { apiKey, baseURL } = asked
      const model = new ChatOpenAI({ model: 'm-1', apiKey, configuration: { baseURL }, ...retriesOf(asked) })
      return readAll(
        map(await model.stream(prompt), ({ text }) => text),
        asked.onText,
      )
    },
  },
]

let gateway: TestGateway
/** Answers of the provider, which wait in the middle. */
let open: { goOn(): void; breakOff(): void }[]
let isAsked: PromiseWithResolvers<void>

beforeEach(async () => {
  open = []
  isAsked = Promise.withResolvers()
  gateway = await openCalledGateway(({ path, response }) => {
    open.push({ goOn: answerHalf(path, response), breakOff: () => response.socket?.destroySoon() })
    isAsked.resolve()
  })
})
afterEach(() => gateway[Symbol.asyncDispose]())

describe.each(clients)('$name', ({ ask, upstream, path = '', whole, isCounted, afterBudget, after503 }) => {
  const asked = (more: Partial<Asked> = {}): Asked => ({
    baseURL: `${gateway.url}/${upstream}${path}`,
    apiKey: gateway.key,
    onText: () => {},
    ...more,
  })
  const finish = () => {
    for (const { goOn } of open) goOn()
  }
  /** Asks, and waits until the client has the first half of the answer. */
  async function askHalf(more: Partial<Asked> = {}) {
    const seen = Promise.withResolvers<string>()
    const answer = ask(asked({ ...more, onText: seen.resolve }))
    if (whole) {
      await isAsked.promise
    } else {
      answer.catch(seen.reject)
      expect(await seen.promise).toBe(saidFirst)
    }
    return { answer }
  }

  it('takes a finished answer', async () => {
    const { answer } = await askHalf()
    finish()
    expect(await answer).toEqual(whole ?? said)
  })

  it('reports the reason of a suspension, and does not ask again', async () => {
    await gateway.kill()
    await expect(ask(asked())).rejects.toThrow('suspended by Wardline: Leak')
    expect([gateway.requests.length, gateway.provider.received.length]).toEqual([1, 0])
  })

  it('takes an answer that a suspension cuts for an error, and does not finish it by asking again', async () => {
    const { answer } = await askHalf()
    const outcome = expect(answer).rejects.toThrow()
    await gateway.kill()
    await outcome
    // Clients that ask again after a connection that broke off are refused, and then give up.
    expect(gateway.requests.length).toBeLessThanOrEqual(2)
    expect(gateway.provider.received).toHaveLength(1)
  })

  it('takes an answer that the provider breaks off for an error', async () => {
    const { answer } = await askHalf({ retries: 0 })
    const outcome = expect(answer).rejects.toThrow()
    for (const { breakOff } of open) breakOff()
    await outcome
  })

  it('reports a wrong key, and does not ask again', async () => {
    await expect(ask(asked({ apiKey: 'wrong' }))).rejects.toThrow('The Wardline key is not valid.')
    expect(gateway.requests).toHaveLength(1)
  })

  if (isCounted !== false) {
    it(`reports a budget without room, and ${afterBudget ?? 'does not ask again'}`, async () => {
      await gateway[Symbol.asyncDispose]()
      const budget = { for: { instances: ['bot'] }, per: 'day', tokens: 1 }
      gateway = await openCalledGateway(() => {}, { budgets: [budget] })
      const outcome = ask(asked(afterBudget ? { retries: 1 } : {}))
      await expect(outcome).rejects.toThrow('The budget bot of Wardline has no room for this call')
      expect(gateway.requests).toHaveLength(afterBudget ? 2 : 1)
    })
  }

  it(`reports a call that cannot be checked, and ${after503 ?? 'retries it as often as it is set to'}`, async () => {
    vi.spyOn(gateway.service.services.controlStates, 'readStored').mockRejectedValue(new Error('away'))
    await expect(ask(asked({ retries: 1 }))).rejects.toThrow('Wardline cannot check now')
    expect(gateway.requests).toHaveLength(after503 ? 1 : 2)
  })

  it('reports a provider that is away', async () => {
    const { baseURL } = asked()
    const away = baseURL.replace(upstream, `${upstream}-away`)
    await expect(ask(asked({ baseURL: away, retries: 0 }))).rejects.toThrow(`${upstream}-away does not answer`)
  })
})

/** An error event would count as the rest of the answer, and so make it complete. */
it('a stream whose length is announced breaks off without an error event', async () => {
  await gateway[Symbol.asyncDispose]()
  const first = 'data: {"half":1}\n\n'
  gateway = await openCalledGateway(({ response }) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'content-length': first.length + 20 })
    response.write(first)
  })
  const reply = await fetch(`${gateway.url}/anthropic/v1/messages`, {
    method: 'POST',
    headers: { 'x-api-key': gateway.key },
    body: '{}',
  })
  const reader = reply.body!.getReader()
  expect(Buffer.from((await reader.read()).value!).toString()).toBe(first)
  const rest = expect(reader.read()).rejects.toThrow()
  await gateway.kill()
  await rest
})
