import { createHmac, timingSafeEqual } from 'node:crypto'
import type { ApprovalPress } from '@wardline/contract'

/** What a button stands for. */
export interface Press {
  approvalId: string
  decision: ApprovalPress['decision']
  channelId: string
  /** Changes with the settings of the channel, so that a button sent to an earlier receiver decides nothing. */
  mark: string
}

/** A channel whose buttons decide approvals. */
export interface DecidingChannel {
  id: string
  name: string
  mark: string
}

/** The stored request of an approval, for buttons that decide it. */
export interface StoredRequest {
  /** The arguments of the call for people, redacted text of the agent. */
  args: string | null
  /** Number of operators who have to approve. */
  needed: 1 | 2
  /** Whether it waits for a decision. */
  isPending: boolean
}

/** Finds a request; undefined if there is none. */
export type FindRequest = (id: string) => Promise<StoredRequest | undefined>

/**
 * Token of a button: the base64url of an HMAC-SHA256. It needs no expiry, because it decides one approval, once, while
 * that waits.
 */
export function pressToken({ approvalId, decision, channelId, mark }: Press, key: Buffer): string {
  const signed = ['wardline-press-v1', approvalId, decision, channelId, mark].map((line) => `${line}\n`).join('')
  return createHmac('sha256', key).update(signed).digest('base64url')
}

/** Compares in constant time. */
export function isPressToken(token: string, press: Press, key: Buffer): boolean {
  const [given, valid] = [Buffer.from(token), Buffer.from(pressToken(press, key))]
  return given.length === valid.length && timingSafeEqual(given, valid)
}
