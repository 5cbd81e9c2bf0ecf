import { drillAnswerMs } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import type { Drill } from '../service/containments.ts'
import { msText } from '../suspend/stages.ts'

export const missingWords: Record<Drill['missing'][number]['reason'], string> = {
  offline: 'offline',
  no_control_stream: 'no control stream is open: it learns of a suspension by its next poll',
  does_not_understand: 'does not understand drills: old SDK, or another client',
  not_sent: 'the process with its control stream did not send the question',
  no_answer: `no answer within ${drillAnswerMs / 1_000} seconds`,
}

/** Describes a drill's result so far. It claims no more than that the agents responded. */
export function drillSentence(drill: Drill): string {
  const { state, selected, asked, answered, missing, missing_count, p50_ms, p99_ms } = drill
  if (state === 'running')
    return `Asked ${asked.toLocaleString('en')}, ${answered.toLocaleString('en')} answered so far.`
  if (selected === 1) {
    const [absent] = missing
    if (absent) return `A suspension may not reach it now: ${missingWords[absent.reason]}.`
    return `It answered after ${msText(p50_ms ?? 0)}: a suspension would have reached it.`
  }
  const speed =
    p50_ms === null ? '' : `, half of them within ${msText(p50_ms)}, 99 % within ${msText(p99_ms ?? p50_ms)}`
  const rest = missing_count === 0 ? '' : ` ${counted(missing_count, 'agent')} did not, or could not be asked.`
  return `${answered.toLocaleString('en')} of ${counted(selected, 'agent')} answered${speed}.${rest}`
}
