import { createHmac } from 'node:crypto'

const prefix = 'whsec_'

/** Input of the signature: Standard Webhooks 1.0.0, section "Signature scheme". */
interface SignedContent {
  /** The same for all attempts: receivers detect duplicates by it. */
  id: string
  /** Unix time in seconds. */
  timestamp: number
  body: string
}

/** Returns one `v1,<base64 of HMAC-SHA256>` per secret, in their order, separated by spaces. */
function webhookSignature({ id, timestamp, body }: SignedContent, secrets: readonly string[]): string {
  return secrets
    .map((secret) => {
      const key = Buffer.from(secret.slice(prefix.length), 'base64')
      return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
    })
    .join(' ')
}

/** Returns the headers of Standard Webhooks 1.0.0. A secret is `whsec_` and base64; without one nothing is signed. */
export function signedHeaders(content: SignedContent, secrets: readonly string[]): Record<string, string> {
  return {
    'webhook-id': content.id,
    'webhook-timestamp': String(content.timestamp),
    ...(secrets.length === 0 ? {} : { 'webhook-signature': webhookSignature(content, secrets) }),
  }
}
