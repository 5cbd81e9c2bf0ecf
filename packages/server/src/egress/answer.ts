import type { IncomingMessage } from 'node:http'
import type { InboundAnswer } from './egress.ts'

/** Enough for every receiver that says why; what is longer is a web page, or meant to fill the memory. */
const maxBytes = 64 * 1024

/**
 * Reads an answer. Once its status has come it counts, with as much of its text as came: a message that was taken must
 * not be sent again because the rest of a sentence was lost. A connection with more to say is closed.
 */
export async function readAnswer(response: IncomingMessage): Promise<InboundAnswer> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      size += chunk.length
      if (size > maxBytes) break
    }
  } catch {
    // Ended early, by either side.
  }
  const bytes = Buffer.concat(chunks).subarray(0, maxBytes)
  return {
    status: response.statusCode!,
    headers: Object.fromEntries(Object.entries(response.headersDistinct).map(([name, values]) => [name, values![0]!])),
    // As part of a stream, so that a character that was cut in two is left out.
    body: new TextDecoder().decode(bytes, { stream: true }),
  }
}
