import { type Agent, request as httpRequest, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http'

export interface CallOptions {
  /** Sent as JSON. */
  body?: unknown
  /** Sent as it stands, with content-type application/json unless `headers` says otherwise. */
  raw?: string | Buffer
  /** The X-Monitor-Key header: the admin key when absent, no header at all when null. */
  key?: string | null
  headers?: OutgoingHttpHeaders
  /** Leaves out content-length, so that the server cannot know the size beforehand. */
  chunked?: boolean
}

export interface Answer<Body = unknown> {
  status: number
  headers: IncomingHttpHeaders
  text: string
  /** The parsed JSON, or undefined when the answer is not declared as JSON. */
  body: Body
}

/** One request over the agent's sockets. Rejects when the connection fails before an answer. */
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
    // The path is handed over as written: URL would tidy `//`, `/./` and the like, which some tests are about.
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
