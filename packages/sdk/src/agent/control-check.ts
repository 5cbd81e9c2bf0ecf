import { type Answer, isSuccess, type Service } from '../service.ts'
import { type Heartbeat, type Told, toldByPoll } from '../wire.ts'
import type { AgentSettings } from './agent-settings.ts'

export interface ControlCheck {
  /** The state that holds; undefined when the agent was never killed, as far as is known. */
  state: Told | undefined
  /** Whether the service has just told it. */
  isTold: boolean
  /** What is to be remembered: the service told something newer than was known. */
  news: Told | undefined
  /** Why it did not tell, for people. */
  fault: string | undefined
  /** Whether a heartbeat was sent and taken. */
  hasBeaten: boolean
}

interface Question {
  service: Service
  settings: AgentSettings
  known: Told | undefined
  isBeatDue: boolean
  timeoutMs: number
}

const noVersion =
  'The answer about the kill switch has no version: either the address leads to something else, or a proxy takes the header ETag away.'

/** Asks for the state of the kill switch, with a heartbeat when one is due. */
export async function checkControl(question: Question): Promise<ControlCheck> {
  const { isBeatDue } = question
  const first = isBeatDue ? sendHeartbeat(question) : undefined
  let answer = await poll(question)
  let hasBeaten = first !== undefined && isSuccess(await first)
  if (answer.status === 404) {
    // The service does not know the instance before its first heartbeat.
    hasBeaten ||= isSuccess(await sendHeartbeat(question))
    if (hasBeaten) answer = await poll(question)
  }
  return { ...judge(question, answer), hasBeaten }
}

/** The same without a heartbeat, which would register the instance. */
export async function pollControl(question: Omit<Question, 'isBeatDue'>): Promise<Omit<ControlCheck, 'hasBeaten'>> {
  return judge(question, await poll(question))
}

function judge(
  { service, known }: Pick<Question, 'service' | 'known'>,
  answer: Answer,
): Omit<ControlCheck, 'hasBeaten'> {
  const told = answer.status === 200 ? toldByPoll(answer.body, answer.header('etag')) : undefined
  if (told) {
    // Of what the service tells only a higher version counts, so that a late answer undoes nothing.
    const isNewer = told.version > (known?.version ?? 0)
    const state = isNewer || known === undefined ? told : known
    return { state, isTold: true, news: isNewer ? told : undefined, fault: undefined }
  }
  // A suspension counts for this call even where its version is lost on the way.
  if (answer.status === 200 && answer.body.suspended === true) {
    const { reason } = answer.body
    const state = { version: 0, suspended: true, reason: typeof reason === 'string' ? reason : null }
    return { state, isTold: true, news: undefined, fault: undefined }
  }
  const fault = answer.status === 200 ? noVersion : service.explain(answer).message
  return { state: known, isTold: false, news: undefined, fault }
}

const poll = ({ service, settings, timeoutMs }: Pick<Question, 'service' | 'settings' | 'timeoutMs'>) =>
  service.call(`instances/${settings.instanceId}/status`, { timeoutMs })

function sendHeartbeat({ service, settings, known, timeoutMs }: Question): Promise<Answer> {
  // No boot_id: a hook is started for every call, which is no start of the agent.
  const heartbeat: Omit<Heartbeat, 'boot_id'> = {
    instance_id: settings.instanceId,
    name: settings.name,
    agent_type: settings.agentType,
    fail_mode: settings.failMode,
    control_version: known?.version ?? 0,
  }
  return service.call('heartbeat', { body: JSON.stringify(heartbeat), timeoutMs })
}
