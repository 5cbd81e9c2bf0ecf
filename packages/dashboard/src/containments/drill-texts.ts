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
