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

/**
 * Callback data of Telegram has at most 64 bytes: a letter, the UUID in base64url and the beginning of the token, 246 bits.
 */
const shortLength = 41
export const shortToken = (token: string): string => token.slice(0, shortLength)

export const callbackData = ({ approvalId, decision }: Pick<Press, 'approvalId' | 'decision'>, token: string): string =>
  `${decision[0]}${Buffer.from(approvalId.replaceAll('-', ''), 'hex').toString('base64url')}${shortToken(token)}`

/** Reads callback data, which a changed client of Telegram can invent; undefined if it has another form. */
export function readCallback(data: unknown): (Pick<Press, 'approvalId' | 'decision'> & { token: string }) | undefined {
  const [, letter, id = '', token = ''] = /^([ad])([\w-]{22})([\w-]{41})$/.exec(String(data)) ?? []
  if (letter === undefined) return undefined
  const approvalId = Buffer.from(id, 'base64url')
    .toString('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  return { approvalId, decision: letter === 'a' ? 'approve' : 'deny', token }
}

/** Compares in constant time; a short token is compared with the beginning of the valid one. */
export function isPressToken(token: string, press: Press, key: Buffer): boolean {
  const whole = pressToken(press, key)
  const [given, valid] = [Buffer.from(token), Buffer.from(token.length === shortLength ? shortToken(whole) : whole)]
  return given.length === valid.length && timingSafeEqual(given, valid)
}
