import type { IncomingMessage } from 'node:http'
import type { HttpAnswer, HttpCall } from '@wardline/contract'

// An import of `node:http` evaluates all its exports and thereby loads `fetch`, which takes longer than most commands.
const requestOf = (url: URL) => process.getBuiltinModule(url.protocol === 'https:' ? 'node:https' : 'node:http').request

/** Returns the reason of the signal if it was aborted, else the error. */
const causeOf = (fault: unknown, signal: AbortSignal): unknown => (signal.aborted ? signal.reason : fault)

async function* chunksOf(message: IncomingMessage, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    yield* message
  } catch (fault) {
    throw causeOf(fault, signal)
  }
}

/**
 * Sends a request like `fetch`, but follows no redirect. Resolves once the headers are received. Rejects with the
 * system's error, or with the reason of the signal.
 */
export function sendHttp(url: URL, { method, headers, body, signal }: HttpCall): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    const request = requestOf(url)(url, { method, headers, signal }, (message) =>
      resolve({
        status: message.statusCode ?? 0,
        headers: { get: (name) => message.headers[name]?.toString() ?? null },
        body: Object.assign(chunksOf(message, signal), { cancel: async () => void message.destroy() }),
      }),
    )
    request.on('error', (fault) => reject(causeOf(fault, signal)))
    request.end(body)
  })
}
