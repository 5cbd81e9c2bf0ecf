// A receiver of alerts without dependencies: verifies signatures by Standard Webhooks 1.0.0, refuses old messages,
// ignores duplicates and prints new alerts.
//
//   export ALERT_WEBHOOK_SECRET=whsec_$(openssl rand -base64 32) PORT=8080
//   npm run example -- alert-receiver
//
// The service needs the same ALERT_WEBHOOK_SECRET, and ALERT_WEBHOOK_URL=http://127.0.0.1:8080. Then:
//
//   npx wardline channels test env-webhook

import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'

/** Two secrets during a rotation, separated by a space. */
const secrets = (process.env.ALERT_WEBHOOK_SECRET ?? '').split(' ').filter((secret) => secret.startsWith('whsec_'))
if (secrets.length === 0) throw new Error('ALERT_WEBHOOK_SECRET must hold whsec_ and the base64 of the secret.')

/** Maximum age of a message: a recorded one cannot be replayed later. */
const toleranceSeconds = 5 * 60
/** The service sends at most 20 kB. */
const maxBytes = 64 * 1024

async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    // Keep reading for a while, so that the sender can read the refusal: closing early would reset the connection.
    if (size > 16 * maxBytes) return undefined
    if (size <= maxBytes) chunks.push(chunk)
  }
  return size > maxBytes ? undefined : Buffer.concat(chunks).toString('utf8')
}

/**
 * Returns why a message is not authentic; undefined if it is. The body must be exactly as received, not parsed and
 * serialized again.
 */
function faultOf(headers: IncomingHttpHeaders, body: string): string | undefined {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers
  if (typeof id !== 'string' || typeof timestamp !== 'string' || typeof signatures !== 'string') return 'not signed'
  const age = Date.now() / 1_000 - Number(timestamp)
  if (!/^\d+$/.test(timestamp) || Math.abs(age) > toleranceSeconds) return 'too old, or of the future'
  const given = signatures.split(' ').map((signature) => Buffer.from(signature))
  const isGenuine = secrets.some((secret) => {
    const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
    const digest = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
    const expected = Buffer.from(`v1,${digest}`)
    return given.some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected))
  })
  return isGenuine ? undefined : 'not genuine'
}

/** Ids of the latest messages. To ignore duplicates across restarts, store them in a database. */
const seen = new Set<string>()
const maxSeen = 10_000

function remember(id: string): void {
  seen.add(id)
  const [oldest] = seen
  if (seen.size > maxSeen && oldest !== undefined) seen.delete(oldest)
}

interface Alert {
  created_at: string
  severity: string
  event_type: string
  instance_id: string | null
  description: string
}

/** Texts come from agents; a compromised agent could send terminal control sequences. */
const plain = (text: string): string => text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\ufffd')

function lineOf(body: string): string {
  const { type, data } = JSON.parse(body) as { type: string; data: Alert | { title: string } }
  if ('title' in data) return plain(`${type}: ${data.title}`)
  return plain(`${data.created_at} ${data.severity} ${data.instance_id ?? '-'} ${data.event_type}: ${data.description}`)
}

const server = createServer(async (request, response) => {
  const answer = (status: number, text: string) => {
    if (status >= 300) console.log(`refused: ${text}`)
    response.writeHead(status, { connection: 'close' }).end(text)
  }
  if (request.method !== 'POST') return answer(405, 'only POST')
  const body = await readBody(request).catch(() => undefined)
  if (body === undefined) return answer(413, 'too long')
  const fault = faultOf(request.headers, body)
  if (fault !== undefined) return answer(401, fault)
  const id = String(request.headers['webhook-id'])
  if (seen.has(id)) return answer(200, 'known already')
  console.log(lineOf(body))
  // Answer 2xx only after processing: the service retries everything else.
  remember(id)
  answer(200, 'thank you')
})
server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1', () => {
  const address = server.address()
  console.log(`listening on http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`)
})
