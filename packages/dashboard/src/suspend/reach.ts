import type { AgentDetail } from '../service/fleet.ts'

interface Reach {
  what: string
  how: string
  isReached: boolean
}

/** Lists what suspending an agent reaches and what it does not, based on the agent's own reports. */
export function reachOf(detail: AgentDetail): Reach[] {
  const { status, fail_mode, control } = detail
  const listens = control.applied_version !== null
  const whenBack = status === 'offline'
  return [
    {
      what: 'New tool calls and tasks that its SDK guards',
      how: listens
        ? 'it listens to control messages'
        : 'this agent never confirmed a control message: it may not listen',
      isReached: listens && !whenBack,
    },
    ...(whenBack
      ? [
          {
            what: 'Work while it is offline',
            how: 'the stop is stored, and applies when the agent asks again',
            isReached: false,
          },
        ]
      : []),
    { what: 'A command that is running already', how: 'not reached: end it on its host', isReached: false },
    { what: 'Keys and tokens that it holds', how: 'not revoked by Wardline', isReached: false },
    ...(fail_mode === 'open'
      ? [
          {
            what: 'An agent that cannot reach the service',
            how: 'this one fails open: it continues until it hears of the stop',
            isReached: false,
          },
        ]
      : []),
  ]
}
