import { spanText } from '../parts/span.ts'
import type { Agent, AgentDetail } from '../service/fleet.ts'

export interface Stage {
  name: string
  /** Milliseconds or an instant; what is missing, for a stage that has not happened. */
  fact: string
  isDone: boolean
}

/** One kill or resume, as far as this browser and the service know of it. */
export interface ControlRun {
  /** Epoch milliseconds of this machine. */
  requestedAt: number
  /** Milliseconds until the service answered that it is stored. */
  answeredMs?: number
  /** Milliseconds by the clock of the service from its change to the word of the agent. */
  confirmedMs?: number
  /** Why the service refused. */
  fault?: string
}

/** Milliseconds between the change and the agent's word; undefined before that. */
export function confirmedAfter({ control }: Pick<Agent, 'control'>): number | undefined {
  const { confirmed, changed_at, applied_at } = control
  if (!confirmed || changed_at === null || applied_at === null) return undefined
  return Math.max(0, Date.parse(applied_at) - Date.parse(changed_at))
}

export function stagesOfRun(run: ControlRun, now: number, requested: string): Stage[] {
  const waited = spanText(now - run.requestedAt)
  return [
    { name: 'Requested', fact: requested, isDone: true },
    {
      name: 'Stored',
      fact: run.answeredMs === undefined ? (run.fault ?? `waiting, ${waited}`) : `+${Math.round(run.answeredMs)} ms`,
      isDone: run.answeredMs !== undefined,
    },
    {
      name: 'Confirmed by the agent',
      fact: run.confirmedMs === undefined ? (run.fault ? 'not sent' : `not yet, ${waited}`) : `+${run.confirmedMs} ms`,
      isDone: run.confirmedMs !== undefined,
    },
  ]
}

/** What the service says of the last kill or resume of an agent. */
export function stagesOfAgent(detail: AgentDetail, now: number, changed: string): Stage[] {
  const { changed_at, applied_at } = detail.control
  if (changed_at === null) return []
  const after = confirmedAfter(detail)
  const how = applied_at === null ? 'it never confirmed any change' : 'not confirmed'
  return [
    { name: 'Stored', fact: changed, isDone: true },
    {
      name: 'Confirmed by the agent',
      fact:
        after === undefined ? `${how}, ${spanText(now - Date.parse(changed_at))}` : `+${after.toLocaleString('en')} ms`,
      isDone: after !== undefined,
    },
  ]
}

/** One sentence on several runs: all, some or none. */
export function runsSentence(action: 'suspend' | 'resume', runs: readonly ControlRun[], total: number): string {
  const confirmed = runs.filter(({ confirmedMs }) => confirmedMs !== undefined)
  const refused = runs.filter(({ fault }) => fault !== undefined).length
  const slowest = Math.max(0, ...confirmed.map(({ confirmedMs = 0 }) => confirmedMs))
  const done = action === 'suspend' ? 'stopped' : 'resumed'
  const noun = total === 1 ? 'The agent' : `${confirmed.length} of ${total} agents`
  const rest = refused > 0 ? ` The service refused ${refused}.` : ''
  if (confirmed.length === total) {
    return `${total === 1 ? 'The agent' : `All ${total} agents`} confirmed: ${done}, ${total === 1 ? '' : 'the slowest '}${slowest} ms after it was stored.`
  }
  if (total === 1) return refused > 0 ? `Not ${done}.` : `${noun} has not confirmed yet: it may still be working.`
  const word = confirmed.length > 0 ? 'Partly ' : 'Not '
  return `${word}${done}: ${noun} confirmed.${rest}`
}
