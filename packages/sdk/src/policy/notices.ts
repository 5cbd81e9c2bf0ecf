import { type Answer, isSuccess } from '../service.ts'

/** Header of heartbeats and polls: the version of the policies. */
const policyHeader = 'x-wardline-policy'

/** Returns the version in an answer to a heartbeat or poll; undefined from a service that knows no policies. */
export function announcedVersion(answer: Answer): number | undefined {
  const text = answer.header(policyHeader) ?? ''
  return isSuccess(answer) && /^\d{1,15}$/.test(text) ? Number(text) : undefined
}

/** What the control stream says of the policies and approvals of an agent. It is no decision: it only says when to ask. */
export type Notice = { action: 'policy'; version: number } | { action: 'approval'; id: string }

/** Reads a message of the control stream. Undefined for other messages and other agents. */
export function readNotice(text: string, instanceId: string): Notice | undefined {
  let message: Record<string, unknown> | null
  try {
    message = JSON.parse(text)
  } catch {
    return undefined
  }
  if (message?.instance_id !== instanceId) return undefined
  const { action, version, id } = message
  if (action === 'policy' && Number.isSafeInteger(version)) return { action, version: version as number }
  return action === 'approval' && typeof id === 'string' ? { action, id } : undefined
}
