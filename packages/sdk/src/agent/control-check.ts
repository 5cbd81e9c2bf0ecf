import { type Answer, isSuccess, type Service } from '../service.ts'
import { openVerifier, signedAnswer } from '../signed-control.ts'
import { type ControlState, contradicts, type Heartbeat, stateFromPoll } from '../wire.ts'
import type { AgentSettings } from './agent-settings.ts'

export interface ControlCheck {
  /** The state that holds; undefined when the agent was never killed, as far as is known. */
  state: ControlState | undefined
  /** Whether the service has just answered with the state. */
  isAnswered: boolean
  /** State to remember: newer than known, or a suspension that contradicts it. */
  news: ControlState | undefined
  /** The version that was known and the service denies: its database is an older copy, or the log was changed. */
  ahead: number | undefined
  /** Why there was no answer, for people. */
  fault: string | undefined
  /** Whether a heartbeat was sent and taken. */
  hasBeaten: boolean
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

/** Asks for the state of the kill switch, with a heartbeat when one is due. */
export async function checkControl(question: Question): Promise<ControlCheck> {
  const { isBeatDue } = question
  const first = isBeatDue ? sendHeartbeat(question) : undefined
  let answer = await poll(question)
  const beat = await first
  // One that comes too often waits for its minute as well.
  let hasBeaten = beat !== undefined && (isSuccess(beat) || beat.status === 429)
  if (answer.status === 404) {
    // The service does not know the instance before its first heartbeat.
    hasBeaten ||= isSuccess(await sendHeartbeat(question))
    if (hasBeaten) answer = await poll(question)
  }
  return { ...judge(question, answer), hasBeaten }
}

/** Interprets the answer to a poll against the known state. */
export function judge(
  { service, known }: Pick<Question, 'service' | 'known'>,
  answer: Answer,
): Omit<ControlCheck, 'hasBeaten'> {
  const received = answer.status === 200 ? stateFromPoll(answer.body, answer.header('etag')) : undefined
  if (received) {
    // Only a higher version lifts a suspension, so that a late answer undoes nothing; a suspension always counts.
    const isContradiction = contradicts(received, known)
    const isNews = received.version > (known?.version ?? 0) || isContradiction
    const state = isNews || known === undefined || received.suspended ? received : known
    const ahead = isContradiction || (known && known.version > received.version) ? known?.version : undefined
    return { state, isAnswered: true, news: isNews ? received : undefined, ahead, fault: undefined }
  }
  // A suspension counts for this call even where its version is lost on the way.
  if (answer.status === 200 && answer.body.suspended === true) {
    const { reason } = answer.body
    const state = { version: 0, suspended: true, reason: typeof reason === 'string' ? reason : null }
    return { state, isAnswered: true, news: undefined, ahead: undefined, fault: undefined }
  }
  const fault = answer.status === 200 ? noVersion : service.explain(answer).message
  return { state: known, isAnswered: false, news: undefined, ahead: undefined, fault }
}

/** Without a heartbeat, which would register the instance. */
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
  // No boot_id: a hook is started for every call, which is no start of the agent.
  const heartbeat: Omit<Heartbeat, 'boot_id'> = {
    instance_id: settings.instanceId,
    name: settings.name,
    agent_type: settings.agentType,
    fail_mode: settings.failMode,
    control_version: known?.version ?? 0,
    // Between two calls of tools nobody is there who could send one: that is no outage.
    leaving: true,
  }
  return service.call('heartbeat', { body: JSON.stringify(heartbeat), timeoutMs })
}
