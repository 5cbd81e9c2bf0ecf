import { matchesPattern } from '@wardline/text'
import type { Price, Prices } from '../../config/gateway-budgets.ts'
import type { CallBody } from './call-body.ts'
import type { ExchangeResult } from './exchange.ts'

/** Tokens of all kinds, and their price in billionths of a USD, which are whole for every published price. */
export interface Amount {
  tokens: number
  nanoUsd: number
}

const defaults = {
  /** The largest input of today's models; a model with a smaller one has it in the file. */
  context: 1_000_000,
  /** The largest output of today's models, for calls that name no limit. */
  maxOutput: 128_000,
} as const

/** Prose has four bytes for a token, code three; text that has fewer than two is rare. */
const bytesPerToken = 2

/** A call as it may become, before it is made. */
export interface Estimate {
  input: number
  output: number
  price: Price | undefined
}

/** Returns the price of a model, by its pattern; undefined if the file has none. */
export function priceOf(prices: Prices, upstream: string, model: string): Prices[number] | undefined {
  return prices.find(([pattern]) =>
    pattern.startsWith('*/')
      ? matchesPattern(pattern.slice(2), model)
      : matchesPattern(pattern, `${upstream}/${model}`),
  )
}

/**
 * Returns the most that a call is expected to use. Only what the body itself has is counted: files by their id, pictures
 * by their address and the history of earlier responses are not.
 */
export function estimate(bytes: number, body: CallBody, price: Price | undefined): Estimate {
  const { context = defaults.context, max_output: maxOutput = defaults.maxOutput } = price ?? {}
  return {
    input: Math.min(Math.ceil(bytes / bytesPerToken), context),
    output: Math.ceil(Math.min(body.maxOutputTokens ?? maxOutput, context) * Math.min(body.choices, maxChoices)),
    price,
  }
}

/** OpenAI's maximum of `n`. */
const maxChoices = 128

interface Tokens {
  input: number
  cached: number
  cacheWrite: number
  output: number
}

function amountOf({ input, cached, cacheWrite, output }: Tokens, price: Price | undefined): Amount {
  const tokens = input + output
  if (!price) return { tokens, nanoUsd: 0 }
  const { cached: cachedPrice = price.input, cache_write: writePrice = price.input } = price
  const plain = Math.max(0, input - cached - cacheWrite)
  const microUsd = plain * price.input + cached * cachedPrice + cacheWrite * writePrice + output * price.output
  return { tokens, nanoUsd: Math.ceil(microUsd * 1000) }
}

/** Returns what is reserved before the call: its input at the dearest price of input. */
export function reservationOf({ input, output, price }: Estimate): Amount {
  const isWriteDearer = (price?.cache_write ?? 0) > (price?.input ?? 0)
  return amountOf({ input, cached: 0, cacheWrite: isWriteDearer ? input : 0, output }, price)
}

/**
 * Returns what a call is charged. `isEstimated`: the provider did not say all of it. A stream that broke off is charged
 * what the provider counted until then and what passed since; an answer without any count as much as was reserved.
 */
export function chargeOf(
  expected: Estimate,
  { end, status, isSent, isStream, uncountedBytes, usage }: ExchangeResult,
): Amount & { isEstimated: boolean } {
  const isError = end !== 'cut' && end !== 'broken' && status !== null && status >= 400
  // Providers do not charge for errors.
  if (!isSent || isError) return { tokens: 0, nanoUsd: 0, isEstimated: false }
  const { input_tokens: input, output_tokens: output, cached_tokens: cached = 0 } = usage
  const { cache_write_tokens: cacheWrite = 0 } = usage
  const isComplete = end === 'complete' && input !== undefined && output !== undefined
  if (isComplete) return { ...amountOf({ input, cached, cacheWrite, output }, expected.price), isEstimated: false }
  const hasBegun = input !== undefined || uncountedBytes > 0
  if (end === 'complete' || !isStream || !hasBegun) return { ...reservationOf(expected), isEstimated: true }
  const passed = (output ?? 0) + Math.ceil(uncountedBytes / bytesPerToken)
  const counted = { input: input ?? expected.input, cached, cacheWrite, output: passed }
  return { ...amountOf(counted, expected.price), isEstimated: uncountedBytes > 0 || output === undefined }
}
