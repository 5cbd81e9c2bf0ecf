import type { AgentSelector, ContainmentSummary } from '@wardline/contract'
import { counted } from '@wardline/text/counted'

const named = 3

/** Describes a selector in fixed words, ids and tags; `scope`: the team of who selected. */
export function selectorText(
  { instances, tags, all }: AgentSelector,
  agents?: number,
  scope: readonly string[] | null = null,
): string {
  const team = scope?.join(' or ')
  if (all) return team === undefined ? 'every agent' : `every agent with ${team}`
  if (tags) return `agents with ${tags.join(' and ')}${team === undefined ? '' : `, among those with ${team}`}`
  if (!instances) return 'no agent'
  const count = Math.max(agents ?? 0, instances.length)
  return count <= named ? instances.join(', ') : `${instances.slice(0, named).join(', ')} and ${count - named} more`
}

const number = (count: number) => count.toLocaleString('en')

/** Whether every agent has confirmed but an enforcement point has not. */
const isUnenforced = ({ state, missing_count, enforcement }: ContainmentSummary): boolean =>
  state === 'partial' && missing_count === 0 && enforcement !== undefined && enforcement.confirmed < enforcement.calls

/** Returns the heading of a containment. A suspension is "stopped" only once every agent is proven stopped. */
export function containmentHeading(containment: ContainmentSummary): string {
  const { action, state, requested, changed, confirmed, proven } = containment
  const who = counted(requested, 'agent')
  const isSuspend = action === 'suspend'
  const what = isSuspend ? 'suspension' : 'resume'
  if (state === 'in_progress') return `${isSuspend ? 'Suspending' : 'Resuming'} ${who}: ${number(confirmed)} confirmed`
  if (state === 'failed') return `None of ${who} confirmed the ${what}`
  if (isUnenforced(containment)) {
    const { calls = 0, confirmed: enforced = 0 } = containment.enforcement ?? {}
    return `Partial: ${who} confirmed the ${what}, but only ${number(enforced)} of ${counted(calls, 'call')} to enforcement points`
  }
  if (state === 'partial') return `Partial: ${number(confirmed)} of ${who} confirmed the ${what}`
  if (changed === 0) return `Nothing to ${action}: another operator did it first`
  if (!isSuspend) return `${counted(changed, 'agent')} resumed and confirmed`
  if (proven === changed) return `${counted(changed, 'agent')} proven stopped`
  return `${counted(changed, 'agent')} confirmed, ${number(proven)} of them proven stopped`
}

/** Describes the next step, by the service or by a person. */
export function nextSentence(containment: ContainmentSummary): string {
  const { action, state, requested, changed, skipped, proven, violated, missing_count } = containment
  const isSuspend = action === 'suspend'
  const they = counted(missing_count, 'agent')
  if (state === 'in_progress') {
    const left = requested - skipped - changed
    if (left > 0) return `${counted(left, 'agent')} left to ${action}.`
    return `Waiting for ${they} to confirm, up to 35 seconds after the last ${isSuspend ? 'suspension' : 'resume'}.`
  }
  if (isUnenforced(containment))
    return 'Enforcement points are retried until they confirm. The page of each agent shows the pending calls and their errors.'
  if (state !== 'complete') {
    return isSuspend
      ? `${they} did not confirm and may still be working. The suspension applies when they reconnect; if that cannot wait, end them on their hosts.`
      : `${they} did not confirm. They resume when they reconnect; no action needed.`
  }
  if (!isSuspend || changed === 0) return 'No further steps.'
  if (violated > 0)
    return `${counted(violated, 'agent')} continued although suspended: end them on their hosts. The page of each agent shows when.`
  return proven < changed
    ? `Waiting for ${counted(changed - proven, 'agent')} to stay silent long enough for proof. They stay suspended until an operator resumes them.`
    : 'They stay suspended until an operator resumes them.'
}

/** How many suspended agents are not known to have stopped. */
export function unprovenText({ unproven, unconfirmed }: { unproven: number; unconfirmed: number }): string {
  const who = `${counted(unproven, 'suspended agent')} ${unproven === 1 ? 'is' : 'are'} not known to have stopped yet`
  if (unconfirmed === 0) return `${who}.`
  const those = unconfirmed < unproven ? unconfirmed.toLocaleString('en') : unproven === 1 ? 'it' : 'they'
  return `${who}; ${those} may still be working.`
}
