import { createHmac } from 'node:crypto'

const prefix = 'whsec_'

/** What is signed by Standard Webhooks 1.0.0, section "Signature scheme". */
export interface SignedContent {
  id: string
  /** Unix time in seconds. */
  timestamp: number
  body: string
}

/**
 * Value of the header webhook-signature: one `v1,<base64 of HMAC-SHA256>` for each secret, in their order, separated by
 * spaces. A secret is `whsec_` and base64.
 */
export function webhookSignature({ id, timestamp, body }: SignedContent, secrets: readonly string[]): string {
  return secrets
    .map((secret) => {
      const key = Buffer.from(secret.slice(prefix.length), 'base64')
      return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
    })
    .join(' ')
}
