import type { HttpAnswer, HttpCall } from '@wardline/contract'
import type { FastifyInstance, InjectOptions } from 'fastify'

async function* oneChunk(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}

/** Sends requests of this process past the network; `createClient` takes the function that is returned. */
export function sendWithin(app: FastifyInstance): (url: URL, call: HttpCall) => Promise<HttpAnswer> {
  return async (url, { method, headers, body }) => {
    const request = { method, url: url.pathname + url.search, headers: { ...headers, host: url.host } }
    const answer = await app.inject({ ...request, ...(body === undefined ? {} : { body }) } as InjectOptions)
    const header = (name: string) => answer.headers[name.toLowerCase()]
    return {
      status: answer.statusCode,
      headers: { get: (name) => (header(name) === undefined ? null : String(header(name))) },
      body: Object.assign(oneChunk(answer.rawPayload), { cancel: async () => {} }),
    }
  }
}
