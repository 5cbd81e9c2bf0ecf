import type { Static } from 'typebox'
import { choice } from './fields.ts'
import { Type } from './type.ts'

/** A machine has at most four million processes; a tree of this size is a fork bomb. */
const maxProcesses = 100_000
/** A tree that takes longer than a day is not held. */
const maxMs = 86_400_000

const processes = (description: string) => Type.Integer({ minimum: 0, maximum: maxProcesses, description })

/** In a heartbeat: it comes from the supervisor of an agent, not from the agent. */
export const SupervisorState = Type.Object(
  {
    processes: processes('Processes of the agent that the supervisor knows'),
    isolated: Type.Boolean({
      description: 'The agent runs as another user, so that it can neither end the supervisor nor read its key',
    }),
  },
  {
    description:
      'Sent by a supervisor, which holds the processes of the agent: the heartbeat then says nothing about the run of the agent (name, type, version, boot_id), except at its registration',
  },
)

/** In an acknowledgement: what the supervisor did with the processes of the agent. */
export const SupervisorResult = Type.Object({
  action: choice(['freeze', 'end'], 'freeze: the processes are stopped; end: they have ended'),
  processes: processes('Processes that it held or ended'),
  left: processes('Processes that it could not hold or end'),
  ms: Type.Integer({ minimum: 0, maximum: maxMs, description: 'Milliseconds from the message to the last process' }),
})
export type SupervisorResult = Static<typeof SupervisorResult>

/** In the answer to a drill: what the supervisor would reach. */
export const SupervisorReach = Type.Object({
  processes: processes('Processes that it knows'),
  unreachable: processes('Those of them that it could not hold'),
})
export type SupervisorReach = Static<typeof SupervisorReach>

/** Header of answers to requests with `supervisor`. */
export const supervisorHeader = 'wardline-supervisor'
export const supervisorHeaderText =
  'Only for a request with `supervisor`: `proves` if the key is one of a supervisor (`supervises`), so that what it says counts; `ignored` if not, since an agent may have such a key: the suspension is not `enforced`'
