import { counted } from '@wardline/text/counted'
import type { Drill } from '../data/containments.ts'
import { msText } from '../suspend/stages.ts'

/** Ordered: agents that were sent the drill come first, because a response was expected of them. */
export const missingWords: Record<Drill['missing'][number]['reason'], string> = {
  no_answer: 'no answer in time',
  not_sent: 'the process with its control stream did not send the drill',
  no_control_stream: 'no control stream is open: it receives a suspension with its next poll',
  does_not_understand: 'does not support drills: old SDK or another client',
  offline: 'offline',
}

const processes = (count: number) => `${count.toLocaleString('en')} ${count === 1 ? 'process' : 'processes'}`

/** Describes what the supervisors of its agents would hold; undefined if none answered. */
export function supervisorSentence(drill: Drill): string | undefined {
  const { selected, supervisors, supervisor_count, incomplete_count } = drill
  if (supervisor_count === 0) return undefined
  const [only] = supervisors
  if (selected === 1 && only) {
    const { processes: known, unreachable } = only
    const held = unreachable === 0 ? '' : `${(known - unreachable).toLocaleString('en')} of `
    return `Its supervisor can hold ${held}${processes(known)}.`
  }
  const all = counted(supervisor_count, 'supervisor')
  if (incomplete_count === 0) return `${all} answered and can hold every process.`
  return `${all} answered, ${incomplete_count.toLocaleString('en')} of them cannot hold every process:`
}

/** Describes what gateways answered; undefined if no agent of the drill calls models through one. */
export function modelSentence({ selected, model_count, model_calls, model_ms }: Drill): string | undefined {
  if (model_count === 0) return undefined
  const whose = selected === 1 ? 'of this agent' : `of ${counted(model_count, 'agent')}`
  const open = model_calls === 0 ? 'none is open now' : `${model_calls.toLocaleString('en')} open now`
  return `The model gateway would refuse and cut the calls ${whose} (${open}; answered after ${msText(model_ms)}).`
}

/** Ordered as the levers of an agent. */
export const silentWords: Record<Drill['silent'][number]['lever'], (count: number) => string> = {
  process: (count) =>
    count === 1 ? 'Its supervisor did not answer' : `${counted(count, 'supervisor')} did not answer`,
  model: (count) =>
    count === 1 ? 'No model gateway answered for it' : `No model gateway answered for ${counted(count, 'agent')}`,
}

/** Describes a drill's result so far. It claims no more than that the agents responded. */
export function drillSentence(drill: Drill): string {
  const { state, selected, asked, answered, missing, missing_count, p50_ms, p99_ms } = drill
  const done = answered.toLocaleString('en')
  if (state === 'running') return `Running: ${done} of ${counted(asked, 'agent')} answered.`
  if (selected === 1) {
    const [absent] = missing
    if (absent) return `A suspension may not reach this agent: ${missingWords[absent.reason]}.`
    return `Answered after ${msText(p50_ms ?? 0)}: a suspension would reach this agent.`
  }
  const speed = p50_ms === null ? '' : ` (p50 ${msText(p50_ms)}, p99 ${msText(p99_ms ?? p50_ms)})`
  const rest = missing_count === 0 ? '' : ` ${counted(missing_count, 'agent')} did not answer or could not be asked.`
  return `${done} of ${counted(selected, 'agent')} answered${speed}.${rest}`
}
