import { spanText } from '../parts/span.ts'
import type { AgentDetail } from '../service/fleet.ts'
import { confirmedAfter, msText } from '../suspend/stages.ts'

/** Describes the last kill or resume, based only on the control version. */
export function resumeSentence(detail: AgentDetail, now: number): string {
  const { confirmed, changed_at } = detail.control
  if (changed_at === null) return 'Not suspended'
  const after = confirmedAfter(detail)
  const word = detail.status === 'suspended' ? 'Suspended' : 'Resumed'
  if (confirmed) return after === undefined ? word : `${word}, confirmed after ${msText(after)}`
  return `${word}, not confirmed for ${spanText(now - Date.parse(changed_at))}`
}
