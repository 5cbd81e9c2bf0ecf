import type { GatewayKind } from '../../config/gateway.ts'
import { FieldsToRead, JsonFields, type WantedFields } from './answer-fields.ts'

/** What a provider says of one call; absent: it did not say, or the answer ended before. */
export interface Usage {
  input_tokens?: number
  output_tokens?: number
  /** Of the input: read from a cache, and written to one, which has another price. */
  cached_tokens?: number
  cache_write_tokens?: number
  finish?: string
  /** Names of the tools that the model asked for. */
  tools?: string[]
}

type CountName = 'input_tokens' | 'output_tokens' | 'cached_tokens' | 'cache_write_tokens'
const maxTools = 50
const maxText = 100

type Fields = Record<string, unknown>
const fieldsOf = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {})
const listOf = (value: unknown): Fields[] => (Array.isArray(value) ? value.map(fieldsOf) : [])

const cachedTokens = { cached_tokens: true } as const
const toolCalls = { tool_calls: { function: { name: true } } } as const
const namedBlock = { type: true, name: true } as const

const openaiResponse: WantedFields = {
  usage: {
    ...{ prompt_tokens: true, input_tokens: true, completion_tokens: true, output_tokens: true },
    ...{ prompt_tokens_details: cachedTokens, input_tokens_details: cachedTokens },
  },
  object: true,
  status: true,
  output: namedBlock,
  choices: { finish_reason: true, delta: toolCalls, message: toolCalls },
}
const anthropicMessage: WantedFields = {
  usage: {
    ...{ input_tokens: true, output_tokens: true },
    ...{ cache_creation_input_tokens: true, cache_read_input_tokens: true },
  },
  stop_reason: true,
  content: namedBlock,
}
/** Texts of an answer, of thinking, and of the arguments of a tool. */
const contents = new Set(['text', 'content', 'delta', 'thinking', 'partial_json', 'arguments', 'refusal'])
const read = (wanted: WantedFields) => new FieldsToRead(wanted, contents)

const fields: Record<GatewayKind, FieldsToRead> = {
  openai: read({ ...openaiResponse, response: openaiResponse }),
  anthropic: read({
    ...anthropicMessage,
    message: anthropicMessage,
    delta: { stop_reason: true },
    content_block: namedBlock,
  }),
  gemini: read({
    usageMetadata: {
      ...{ promptTokenCount: true, toolUsePromptTokenCount: true, candidatesTokenCount: true },
      ...{ thoughtsTokenCount: true, cachedContentTokenCount: true },
    },
    candidates: { finishReason: true, content: { parts: { functionCall: { name: true } } } },
  }),
}

const dataPrefix = Buffer.from('data:')
const newline = 10

/** Reads the usage of one answer while it passes. It keeps no content and changes nothing. */
export class UsageReader {
  readonly #isStream: boolean
  readonly #usage: Usage = {}
  readonly #tools = new Set<string>()
  readonly #fields: JsonFields
  /** Bytes of `data:` that the line has so far; -1: it is another line. */
  #prefix = 0

  constructor(kind: GatewayKind, isStream: boolean) {
    this.#isStream = isStream
    const readers = { openai: this.#readOpenai, anthropic: this.#readAnthropic, gemini: this.#readGemini }
    // Gemini streams a list of its events if the call does not ask for `alt=sse`.
    this.#fields = new JsonFields(fields[kind], (event) => readers[kind].call(this, event))
  }

  push(chunk: Buffer): void {
    if (!this.#isStream) {
      this.#fields.push(chunk)
      return
    }
    let start = 0
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      this.#readLine(chunk, start, end)
      this.#endLine()
      start = end + 1
    }
    this.#readLine(chunk, start, chunk.length)
  }

  /** Returns what was read. Call once, when the answer ended or was cut. */
  end(): Usage {
    this.#endLine()
    return { ...this.#usage, ...(this.#tools.size > 0 ? { tools: [...this.#tools] } : {}) }
  }

  /** Bytes of content since the provider last counted its output; an estimate if the stream broke off. */
  get uncountedBytes(): number {
    return this.#fields.textBytes
  }

  #readLine(chunk: Buffer, from: number, to: number): void {
    let at = from
    while (at < to && this.#prefix >= 0 && this.#prefix < dataPrefix.length) {
      this.#prefix = chunk[at] === dataPrefix[this.#prefix] ? this.#prefix + 1 : -1
      at += 1
    }
    if (at < to && this.#prefix > 0) this.#fields.push(chunk, at, to)
  }

  #endLine(): void {
    this.#prefix = 0
    this.#fields.end()
  }

  #count(name: CountName, ...counts: unknown[]): void {
    const known = counts.filter((count) => typeof count === 'number' && Number.isSafeInteger(count) && count >= 0)
    if (known.length === 0) return
    const sum = (known as number[]).reduce((sum, count) => sum + count, 0)
    // Counts are cumulative; a later one can leave parts of an earlier one out.
    this.#usage[name] = Math.max(this.#usage[name] ?? 0, sum)
    if (name === 'output_tokens') this.#fields.textBytes = 0
  }

  #finish(value: unknown): void {
    if (typeof value === 'string') this.#usage.finish = value.slice(0, maxText)
  }

  #tool(value: unknown): void {
    if (typeof value === 'string' && value !== '' && this.#tools.size < maxTools)
      this.#tools.add(value.slice(0, maxText))
  }

  // https://platform.openai.com/docs/api-reference/chat/streaming and /responses-streaming
  #readOpenai(body: Fields): void {
    const response = body.response === undefined ? body : fieldsOf(body.response)
    const usage = fieldsOf(response.usage)
    this.#count('input_tokens', usage.prompt_tokens ?? usage.input_tokens)
    this.#count('output_tokens', usage.completion_tokens ?? usage.output_tokens)
    const details = fieldsOf(usage.prompt_tokens_details ?? usage.input_tokens_details)
    this.#count('cached_tokens', details.cached_tokens)
    if (response.object === 'response') this.#finish(response.status)
    for (const { type, name } of listOf(response.output)) if (type === 'function_call') this.#tool(name)
    for (const { finish_reason, delta, message } of listOf(response.choices)) {
      this.#finish(finish_reason)
      for (const call of listOf(fieldsOf(delta ?? message).tool_calls)) this.#tool(fieldsOf(call.function).name)
    }
  }

  // https://docs.claude.com/en/docs/build-with-claude/streaming: output_tokens of message_delta is cumulative.
  #readAnthropic(body: Fields): void {
    const message = body.message === undefined ? body : fieldsOf(body.message)
    const usage = fieldsOf(message.usage)
    this.#count('input_tokens', usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens)
    this.#count('output_tokens', usage.output_tokens)
    this.#count('cached_tokens', usage.cache_read_input_tokens)
    this.#count('cache_write_tokens', usage.cache_creation_input_tokens)
    this.#finish(message.stop_reason ?? fieldsOf(body.delta).stop_reason)
    for (const block of [fieldsOf(body.content_block), ...listOf(message.content)]) {
      if (block.type === 'tool_use') this.#tool(block.name)
    }
  }

  // https://ai.google.dev/api/generate-content#UsageMetadata: the last chunk has the totals.
  #readGemini(body: Fields): void {
    const usage = fieldsOf(body.usageMetadata)
    this.#count('input_tokens', usage.promptTokenCount, usage.toolUsePromptTokenCount)
    this.#count('output_tokens', usage.candidatesTokenCount, usage.thoughtsTokenCount)
    this.#count('cached_tokens', usage.cachedContentTokenCount)
    for (const { finishReason, content } of listOf(body.candidates)) {
      this.#finish(finishReason)
      for (const { functionCall } of listOf(fieldsOf(content).parts)) this.#tool(fieldsOf(functionCall).name)
    }
  }
}
