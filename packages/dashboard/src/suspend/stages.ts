import type { EnforcementCall, Suspension } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import type { Agent } from '../data/fleet.ts'
import { spanText } from '../ui/span.ts'

export interface Stage {
  name: string
  /** A duration or an instant; for a stage that has not happened, what is missing. */
  fact: string
  isDone: boolean
}

/** Returns the milliseconds from the last kill or resume to the agent's confirmation; undefined until then. */
export function confirmedAfter({ control }: Pick<Agent, 'control'>): number | undefined {
  const { confirmed, changed_at, applied_at } = control
  if (!confirmed || changed_at === null || applied_at === null) return undefined
  return Math.max(0, Date.parse(applied_at) - Date.parse(changed_at))
}

export const msText = (ms: number | null): string =>
  ms === null ? 'unknown' : `${Math.max(0, ms).toLocaleString('en')} ms`

const ways = { stream: 'by control stream', poll: 'by poll', answer: 'by a header of answers' }

const processesText = (count: number) => (count === 1 ? '1 process' : `${count.toLocaleString('en')} processes`)

/** The stage of a supervisor, or of the model gateway; none for an agent without either. */
function heldStage({
  enforced_at,
  enforced_by,
  held_processes,
  left_processes,
}: Suspension): [name: string, at: string | null, how: string, missing: string][] {
  if (enforced_by === 'gateway') return [['Model cut', enforced_at, ', by the gateway', '']]
  const held = held_processes === null ? '' : `, ${processesText(held_processes)}`
  if (enforced_at !== null) return [['Held', enforced_at, `${held}, by its supervisor`, '']]
  if (left_processes === null) return []
  return [['Held', null, '', `its supervisor cannot hold ${processesText(left_processes)}`]]
}

/**
 * Returns the stages of a suspension. `requested` is its formatted time. A stage that was not observed is shown as
 * unknown if a later one was, or if the suspension has ended; it is never assumed.
 */
export function stagesOf(suspension: Suspension, now: number, requested: string): Stage[] {
  const { requested_at, resumed_at, can_acknowledge, delivered_by, acknowledged_by, breaches } = suspension
  const start = Date.parse(requested_at)
  const waited = `not yet, ${spanText(now - start)}`
  const acknowledged = can_acknowledge ? waited : 'this client cannot acknowledge'
  const silent = can_acknowledge ? 'not yet' : 'cannot be proven'
  const facts: [name: string, at: string | null, how: string, missing: string][] = [
    ['Stored', suspension.stored_at, '', waited],
    ['Published', suspension.published_at, '', waited],
    ['Delivered', suspension.delivered_at, delivered_by ? `, ${ways[delivered_by]}` : '', waited],
    ['Acknowledged', suspension.acknowledged_at, acknowledged_by === 'heartbeat' ? ', by heartbeat' : '', acknowledged],
    ...heldStage(suspension),
    ['Silent', suspension.silent_at, '', breaches > 0 ? 'no: it was active' : silent],
  ]
  const last = facts.findLastIndex(([, at]) => at !== null)
  return [
    { name: 'Requested', fact: requested, isDone: true },
    ...facts.map(([name, at, how, missing], index) => {
      if (at !== null) return { name, fact: `+${msText(Date.parse(at) - start)}${how}`, isDone: true }
      const isUnknown = index < last || (resumed_at !== null && breaches === 0)
      return { name, fact: isUnknown ? 'unknown' : missing, isDone: false }
    }),
  ]
}

/** Describes the state of a suspension in a sentence without a period. */
export function suspensionSentence(suspension: Suspension, now: number): string {
  const { state, requested_at, acknowledged_at, enforced_at, first_breach_at, breaches, resumed_at } = suspension
  const after = (at: string | null) => (at === null ? '' : msText(Date.parse(at) - Date.parse(requested_at)))
  const waited = spanText((resumed_at === null ? now : Date.parse(resumed_at)) - Date.parse(requested_at))
  const sentences: Record<Suspension['state'] | 'partial', string> = {
    pending: `Suspended, not confirmed for ${waited}`,
    unconfirmed: `Suspended, not confirmed for ${waited}: it may still be working`,
    delivered: 'Suspended and delivered; this client cannot confirm and may still be working',
    quiet: 'Suspended, delivered and quiet since; this client cannot confirm, so the stop is not proven',
    confirmed: `Suspended, confirmed after ${after(acknowledged_at)}`,
    proven: `Proven stopped: confirmed after ${after(acknowledged_at)}, and silent since`,
    enforced: `Held by its supervisor after ${after(enforced_at)}`,
    partial: 'Partial: an enforcement point has not confirmed',
    violated: `Active although suspended: ${counted(breaches, 'event')}, the first ${spanText(Date.parse(first_breach_at ?? requested_at) - Date.parse(requested_at))} after the request`,
  }
  return sentences[state]
}

/** Describes the state of an enforcement point's call in fixed words. Its error is untrusted text. */
export function enforcementText({ state, attempts }: Pick<EnforcementCall, 'state' | 'attempts'>): string {
  const calls = attempts === 1 ? 'one attempt' : `${attempts.toLocaleString('en')} attempts`
  if (state === 'confirmed') return 'confirmed'
  if (state === 'superseded') return 'not confirmed before the resume'
  return state === 'failed' ? `failed after ${calls}` : 'not confirmed yet'
}

/** Returns the stages of an agent's last resume. */
export function stagesOfResume(agent: Pick<Agent, 'control'>, now: number, changed: string): Stage[] {
  const { changed_at, applied_at } = agent.control
  if (changed_at === null) return []
  const after = confirmedAfter(agent)
  const how = applied_at === null ? 'never confirmed a change' : 'not confirmed'
  return [
    { name: 'Stored', fact: changed, isDone: true },
    {
      name: 'Acknowledged',
      fact: after === undefined ? `${how}, ${spanText(now - Date.parse(changed_at))}` : `+${msText(after)}`,
      isDone: after !== undefined,
    },
  ]
}
