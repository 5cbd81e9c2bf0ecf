/** A suspension: one that holds, or one that is requested. */
export interface Hold {
  /** When it ends by itself; null: a person has to resume the agent. */
  endsAt: number | null
  /** Whether a resume needs two operators. */
  twoPerson: boolean
  /** Whether instances that its key registers begin suspended, as a fleet stop demands. */
  holdsKey: boolean
  /** Whether it ends when the parent is resumed, whose suspension caused it. */
  isThrough?: boolean
  /** Whether a resume that people requested is about to end it. */
  isEnding?: boolean
}

/**
 * Result of a request to suspend. `take_over`: it replaces the suspension that holds. `extend`: the suspension
 * that holds ends later. `hold_key`: it holds its key as well. `keep`: nothing changes.
 */
export type HoldVerdict = 'suspend' | 'take_over' | 'extend' | 'hold_key' | 'keep'

/**
 * Decides on a request to suspend: of two suspensions the stronger one holds, then the longer one. One that is about to
 * end holds nothing. One through a parent gives way to any other, also to one with a time: no agent is resumed while its
 * parent is suspended, whatever holds it.
 */
export function onSuspend(held: Hold | undefined, requested: Hold): HoldVerdict {
  if (!held) return 'suspend'
  if (held.isEnding || held.isThrough) return 'take_over'
  if (requested.endsAt === null) {
    if (held.endsAt !== null || (requested.twoPerson && !held.twoPerson)) return 'take_over'
    return requested.holdsKey && !held.holdsKey ? 'hold_key' : 'keep'
  }
  return held.endsAt !== null && requested.endsAt > held.endsAt ? 'extend' : 'keep'
}

/** Who resumes: the timer of the suspension with this control version, or one or two operators. */
type Resumer = { timerOf: number; now: number } | { operators: 1 | 2 }

/** Decides on a resume: a suspension is ended by its own timer or by people, as many as it needs. */
export function mayResume(held: Hold & { version: number }, by: Resumer): boolean {
  if ('timerOf' in by) return held.version === by.timerOf && held.endsAt !== null && held.endsAt <= by.now
  return by.operators === 2 || !held.twoPerson
}
