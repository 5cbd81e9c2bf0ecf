import type { IncomingMessage } from 'node:http'
import type { InboundAnswer } from './egress.ts'

/** Enough for every error message; longer responses are web pages, or an attempt to fill the memory. */
export const maxAnswerBytes = 64 * 1024

/**
 * Reads a response. An interrupted one is returned with the part of the body that was received, because an accepted
 * message must not be sent again. A connection that sends more than the limit is closed.
 */
export async function readAnswer(response: IncomingMessage): Promise<InboundAnswer> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      size += chunk.length
      if (size > maxAnswerBytes) break
    }
  } catch {
    // Interrupted by either side.
  }
  const bytes = Buffer.concat(chunks).subarray(0, maxAnswerBytes)
  return {
    status: response.statusCode!,
    headers: Object.fromEntries(Object.entries(response.headersDistinct).map(([name, values]) => [name, values![0]!])),
    // `stream` omits an incomplete character at the end.
    body: new TextDecoder().decode(bytes, { stream: true }),
  }
}
