/** Header of every request: a few compressed KiB can unpack to gigabytes. */
export const plainEncoding = { 'accept-encoding': 'identity' }

/** Maximum bytes of a response. 1,000 events of the largest size are some 24 MiB; everything but lists is a few KiB. */
export const answerLimits = { list: 32 * 1024 * 1024, other: 1024 * 1024 } as const

/** The response cannot come from a Wardline server; the message says why. */
export class InvalidAnswer extends Error {
  override name = 'InvalidAnswer'
}

/** The parts of an HTTP response that are read: the `Response` of `fetch`, or the same shape from another client. */
export interface HttpAnswer {
  status: number
  headers: { get(name: string): string | null }
  body: (AsyncIterable<Uint8Array> & { cancel(): Promise<void> }) | null
}

/** Throws InvalidAnswer when the body is compressed, before any of it is unpacked. */
export function assertPlain(response: HttpAnswer): void {
  const encoding = response.headers.get('content-encoding') ?? 'identity'
  if (encoding.toLowerCase() === 'identity') return
  response.body?.cancel().catch(() => {})
  throw new InvalidAnswer(`the answer is compressed (${encoding.slice(0, 20)}), although no compression was requested`)
}

/**
 * Reads a response body as text. Throws InvalidAnswer and closes the connection when the body exceeds `maxBytes`, or is
 * compressed although compression is not accepted.
 */
export async function boundedText(response: HttpAnswer, maxBytes: number, acceptsCompressed = false): Promise<string> {
  if (!acceptsCompressed) assertPlain(response)
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  for await (const part of response.body ?? []) {
    bytes += part.length
    if (bytes > maxBytes) throw new InvalidAnswer(`the answer has more than ${maxBytes} bytes`)
    text += decoder.decode(part, { stream: true })
  }
  return text + decoder.decode()
}

/** Parses JSON; undefined for invalid JSON. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
