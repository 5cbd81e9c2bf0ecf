import type { ContainmentSelector, ContainmentSummary } from '@wardline/contract'
import { counted } from '@wardline/text/counted'

const named = 3

/** Describes a selector in fixed words, ids and tags. */
export function selectorText({ instances, tags, all }: ContainmentSelector, agents?: number): string {
  if (all) return 'every agent'
  if (tags) return `agents with ${tags.join(' and ')}`
  if (!instances) return 'no agent'
  const count = Math.max(agents ?? 0, instances.length)
  return count <= named ? instances.join(', ') : `${instances.slice(0, named).join(', ')} and ${count - named} more`
}

export const stateWords: Record<ContainmentSummary['state'], string> = {
  in_progress: 'in progress',
  partial: 'partial',
  complete: 'complete',
  failed: 'failed',
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
    return `Partial: ${who} confirmed the ${what}, ${number(enforced)} of ${counted(calls, 'call')} to enforcement points did`
  }
  if (state === 'partial') return `Partial: ${number(confirmed)} of ${who} confirmed the ${what}`
  if (changed === 0) return `Nothing to ${action}: other operators were faster`
  if (!isSuspend) return `${counted(changed, 'agent')} resumed and confirmed`
  if (proven === changed) return `${counted(changed, 'agent')} proven stopped`
  return `${counted(changed, 'agent')} confirmed, ${number(proven)} of them proven stopped`
}

/** Describes the next step, by the service or by a person. */
export function nextSentence(containment: ContainmentSummary): string {
  const { action, state, requested, changed, skipped, proven, violated, missing_count } = containment
  const isSuspend = action === 'suspend'
  if (state === 'in_progress') {
    const left = requested - skipped - changed
    if (left > 0) return `${counted(left, 'agent')} still to be ${isSuspend ? 'suspended' : 'resumed'}.`
    return `Waiting for ${counted(missing_count, 'agent')} to acknowledge, until 35 seconds after the last one was ${isSuspend ? 'suspended' : 'resumed'}.`
  }
  if (isUnenforced(containment))
    return 'Enforcement points are called again until they confirm. The page of an agent says which one did not, and why.'
  if (state !== 'complete') {
    const who = `${counted(missing_count, 'agent')} did not acknowledge`
    return isSuspend
      ? `${who} and may still be working. The suspension is stored and applies when they ask again; if that cannot wait, end them on their hosts.`
      : `${who}: they resume when they ask again. Nothing else has to be done.`
  }
  if (!isSuspend || changed === 0) return 'Nothing: it is over.'
  if (violated > 0)
    return `${counted(violated, 'agent')} went on although suspended: end them on their hosts. The page of an agent says when.`
  return proven < changed
    ? `Waiting for ${counted(changed - proven, 'agent')} to be silent long enough to count as proven. They stay suspended until an operator resumes them.`
    : 'They stay suspended until an operator resumes them.'
}
