import { type Agent, request as httpRequest, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http'

export interface CallOptions {
  /** Sent as JSON. */
  body?: unknown
  /** Sent unchanged, by default with content-type application/json. */
  raw?: string | Buffer
  /** X-Monitor-Key. Default: the admin key; null: no header. */
  key?: string | null
  headers?: OutgoingHttpHeaders
  /** Omits content-length, so that the server does not know the size in advance. */
  chunked?: boolean
}

export interface Answer<Body = unknown> {
  status: number
  headers: IncomingHttpHeaders
  text: string
  /** Parsed JSON; undefined if the content type is not JSON. */
  body: Body
}

/** Sends a request over the sockets of `agent`. Rejects if the connection fails before a response. */
export function request<Body>(
  baseUrl: string,
  adminKey: string | undefined,
  agent: Agent,
  method: string,
  path: string,
  options: CallOptions = {},
): Promise<Answer<Body>> {
  const payload = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body))
  const headers: OutgoingHttpHeaders = {}
  const key = options.key === undefined ? adminKey : options.key
  if (key !== null && key !== undefined) headers['x-monitor-key'] = key
  if (payload !== undefined) {
    headers['content-type'] = 'application/json'
    if (options.chunked) headers['transfer-encoding'] = 'chunked'
    else headers['content-length'] = Buffer.byteLength(payload)
  }
  Object.assign(headers, options.headers)

  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(baseUrl)
    // The path is sent unchanged: URL would normalize `//` and `/./`, which some tests need.
    const outgoing = httpRequest({ hostname, port, method, path, headers, agent }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.once('error', reject)
      response.once('end', () => {
        const text = Buffer.concat(chunks).toString('utf8')
        const isJson = /^application\/(\w+\+)?json\b/.test(response.headers['content-type'] ?? '')
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          body: (isJson && text !== '' ? JSON.parse(text) : undefined) as Body,
        })
      })
    })
    outgoing.once('error', reject)
    outgoing.end(payload)
  })
}
