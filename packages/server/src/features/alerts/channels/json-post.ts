import type { OutboundRequest } from '../../../egress/egress.ts'
import type { Sender } from './channel.ts'
import { userAgent } from './reporter.ts'

/** A POST of JSON. */
export const jsonPost = (
  url: string,
  payload: object,
  sender: Sender,
  headers: Record<string, string> = {},
): OutboundRequest => ({
  url,
  headers: { 'content-type': 'application/json', 'user-agent': userAgent(sender), ...headers },
  body: JSON.stringify(payload),
})
