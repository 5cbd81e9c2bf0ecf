import { announcedVersion } from '../policy/notices.ts'
import { type Answer, isSuccess, type Service } from '../service.ts'
import { openVerifier, signedAnswer } from '../signed-control.ts'
import { type ControlState, contradicts, type Heartbeat, stateFromPoll } from '../wire.ts'
import type { AgentSettings } from './agent-settings.ts'

export interface ControlCheck {
  /** Current state; undefined if no kill is known. */
  state: ControlState | undefined
  /** Whether the service returned the state. */
  isAnswered: boolean
  /** State to store: newer than the known one, or a suspension that contradicts it. */
  news: ControlState | undefined
  /** Known version that the service contradicts: its database is an older copy, or the log was changed. */
  ahead: number | undefined
  /** Why there was no response, for people. */
  fault: string | undefined
  /** Whether a heartbeat was accepted. */
  hasBeaten: boolean
  /** Version of the policies that the service has; 0 for none. */
  policyVersion: number
}

interface Question {
  service: Service
  settings: AgentSettings
  known: ControlState | undefined
  isBeatDue: boolean
  timeoutMs: number
}

const noVersion =
  'The answer of the kill switch has no version: either the address belongs to another service, or a proxy removes the header ETag.'

/** Polls the kill switch, and sends a heartbeat if one is due. */
export async function checkControl(question: Question): Promise<ControlCheck> {
  const { isBeatDue } = question
  const first = isBeatDue ? sendHeartbeat(question) : undefined
  let answer = await poll(question)
  const beat = await first
  // After 429 the next heartbeat is due in a minute too.
  let hasBeaten = beat !== undefined && (isSuccess(beat) || beat.status === 429)
  if (answer.status === 404) {
    // The instance is unknown until its first heartbeat.
    hasBeaten ||= isSuccess(await sendHeartbeat(question))
    if (hasBeaten) answer = await poll(question)
  }
  return { ...judge(question, answer), hasBeaten, policyVersion: announcedVersion(answer) ?? 0 }
}

/** Compares the response to a poll with the known state. */
export function judge(
  { service, known }: Pick<Question, 'service' | 'known'>,
  answer: Answer,
): Omit<ControlCheck, 'hasBeaten' | 'policyVersion'> {
  const received = answer.status === 200 ? stateFromPoll(answer.body, answer.header('etag')) : undefined
  if (received) {
    // Only a higher version lifts a suspension, so that a late response undoes nothing. A suspension always applies.
    const isContradiction = contradicts(received, known)
    const isNews = received.version > (known?.version ?? 0) || isContradiction
    const state = isNews || known === undefined || received.suspended ? received : known
    const ahead = isContradiction || (known && known.version > received.version) ? known?.version : undefined
    return { state, isAnswered: true, news: isNews ? received : undefined, ahead, fault: undefined }
  }
  // A suspension applies to this call even if a proxy removed its version.
  if (answer.status === 200 && answer.body.suspended === true) {
    const { reason } = answer.body
    const state = { version: 0, suspended: true, reason: typeof reason === 'string' ? reason : null }
    return { state, isAnswered: true, news: undefined, ahead: undefined, fault: undefined }
  }
  const fault = answer.status === 200 ? noVersion : service.explain(answer).message
  return { state: known, isAnswered: false, news: undefined, ahead: undefined, fault }
}

/** Polls without a heartbeat, which would register the instance. */
export async function poll({
  service,
  settings: { instanceId, publicKey },
  timeoutMs,
}: Pick<Question, 'service' | 'settings' | 'timeoutMs'>): Promise<Answer> {
  const answering = service.call(`instances/${instanceId}/status`, { timeoutMs })
  const verify = await openVerifier(publicKey, instanceId)
  return signedAnswer(await answering, verify)
}

function sendHeartbeat({ service, settings, known, timeoutMs }: Question): Promise<Answer> {
  // No boot_id: a hook starts for every call, which is not a start of the agent.
  const heartbeat: Heartbeat = {
    instance_id: settings.instanceId,
    name: settings.name,
    agent_type: settings.agentType,
    fail_mode: settings.failMode,
    parent_instance_id: settings.parent,
    control_version: known?.version ?? 0,
    // No process runs between two tool calls, so silence is not an outage.
    leaving: true,
  }
  return service.call('heartbeat', { body: JSON.stringify(heartbeat), timeoutMs })
}
