/** Sent with every request: a few compressed KiB can unpack to gigabytes. */
export const plainEncoding = { 'accept-encoding': 'identity' }

/** Bytes of one answer. 1,000 events of the largest size have some 24 MiB; everything but lists has a few KiB. */
export const answerLimits = { list: 32 * 1024 * 1024, other: 1024 * 1024 } as const

/** The answer is not what a Wardline sends; the message says what it is. */
export class InvalidAnswer extends Error {
  override name = 'InvalidAnswer'
}

/** What is read of an answer over HTTP: the `Response` of `fetch`, or one of another client in the same form. */
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
 * The body of an answer as text. Throws InvalidAnswer when it has more bytes, or is compressed and must not be, and ends the
 * connection.
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

/** The value of a JSON text; undefined when it is none. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
