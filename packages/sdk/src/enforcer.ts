/** The result of a suspension, sent with its acknowledgement. */
export interface Evidence {
  action: 'freeze' | 'end'
  processes: number
  /** Processes that run on. */
  left: number
  /** From the message to the result. */
  ms: number
}

export interface Presence {
  processes: number
  /** Whether the agent runs as a user that can neither signal nor read the enforcer. */
  isolated: boolean
}

/** Applies suspensions from outside the agent. Nothing is acknowledged before it has. */
export interface Enforcer {
  /** Resolves once the current state of the kill switch is in effect; with evidence if that is a suspension. */
  apply(): Promise<Evidence | undefined>
  presence(): Presence
  /** Checks for a drill whether each process can be reached. */
  check(): { processes: number; unreachable: number }
}
