import type { GatewayKind } from '../../config/gateway.ts'

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

/** A line of a stream that is longer holds content, not usage. */
const maxLineBytes = 1024 * 1024
/** An answer that is longer is passed on and not read. */
const maxJsonBytes = 8 * 1024 * 1024
type CountName = 'input_tokens' | 'output_tokens' | 'cached_tokens' | 'cache_write_tokens'
const maxTools = 50
const maxText = 100

type Fields = Record<string, unknown>
const fieldsOf = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {})
const listOf = (value: unknown): Fields[] => (Array.isArray(value) ? value.map(fieldsOf) : [])

/** Parts of lines that can have what is read: the text of an answer arrives in many lines that have none of them. */
const telling: Record<GatewayKind, RegExp> = {
  openai: /"usage"|"tool_calls"|"finish_reason":\s*"|"type":\s*"response\.(completed|incomplete|failed)"/,
  anthropic: /"type":\s*"(message_start|message_delta|content_block_start)"/,
  gemini: /"usageMetadata"|"functionCall"|"finishReason"/,
}

/** Texts in events of a stream: of an answer, of thinking, and of the arguments of a tool. */
const contents = /"(?:text|content|delta|thinking|partial_json|arguments|refusal)":\s*"((?:[^"\\]|\\.)*)"/g

/** Reads the usage of one answer while it passes. It keeps no content and changes nothing. */
export class UsageReader {
  readonly #kind: GatewayKind
  readonly #isStream: boolean
  readonly #usage: Usage = {}
  readonly #tools = new Set<string>()
  #parts: Buffer[] = []
  #bytes = 0
  #isTooLong = false
  #uncountedBytes = 0

  constructor(kind: GatewayKind, isStream: boolean) {
    this.#kind = kind
    this.#isStream = isStream
  }

  push(chunk: Buffer): void {
    if (!this.#isStream) {
      this.#keep(chunk, maxJsonBytes)
      return
    }
    let start = 0
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      this.#keep(chunk.subarray(start, end), maxLineBytes)
      this.#readLine()
      start = end + 1
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start), maxLineBytes)
  }

  /** Returns what was read. Call once, when the answer ended or was cut. */
  end(): Usage {
    if (this.#isStream) this.#readLine()
    else this.#read(this.#take())
    return { ...this.#usage, ...(this.#tools.size > 0 ? { tools: [...this.#tools] } : {}) }
  }

  /** Bytes of the stream's content since the provider last counted its output; an estimate if the stream broke off. */
  get uncountedBytes(): number {
    return this.#uncountedBytes
  }

  #keep(part: Buffer, max: number): void {
    this.#bytes += part.length
    this.#isTooLong ||= this.#bytes > max
    if (this.#isTooLong) this.#parts = []
    // A copy: the chunk that it is a part of would otherwise stay in memory.
    else if (part.length > 0) this.#parts.push(Buffer.from(part))
  }

  #take(): string {
    const text = this.#isTooLong ? '' : Buffer.concat(this.#parts).toString()
    this.#parts = []
    this.#bytes = 0
    this.#isTooLong = false
    return text
  }

  #readLine(): void {
    // What is too long to be read still has passed.
    if (this.#isTooLong) this.#uncountedBytes += this.#bytes
    const line = this.#take()
    if (!line.startsWith('data:')) return
    for (const [, content] of line.matchAll(contents)) this.#uncountedBytes += content!.length
    if (line.startsWith('data:') && telling[this.#kind].test(line)) this.#read(line.slice('data:'.length))
  }

  #read(json: string): void {
    let value: unknown
    try {
      value = JSON.parse(json)
    } catch {
      return
    }
    const readers = { openai: this.#readOpenai, anthropic: this.#readAnthropic, gemini: this.#readGemini }
    // Gemini streams a list of its events if the call does not ask for `alt=sse`.
    for (const event of Array.isArray(value) ? listOf(value) : [fieldsOf(value)]) readers[this.#kind].call(this, event)
  }

  #count(name: CountName, ...counts: unknown[]): void {
    const known = counts.filter((count) => typeof count === 'number' && Number.isSafeInteger(count) && count >= 0)
    if (known.length === 0) return
    const sum = (known as number[]).reduce((sum, count) => sum + count, 0)
    // Counts are cumulative; a later one can leave parts of an earlier one out.
    this.#usage[name] = Math.max(this.#usage[name] ?? 0, sum)
    if (name === 'output_tokens') this.#uncountedBytes = 0
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
