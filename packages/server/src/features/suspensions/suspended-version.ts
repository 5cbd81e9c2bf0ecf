import type { SuspendedVersion } from '../../http/direct.ts'
import type { SuspendedAgents } from './suspended-agents.ts'
import type { SuspensionFacts } from './suspension-facts.ts'

interface Parts {
  suspendedAgents: Pick<SuspendedAgents, 'isEmpty' | 'suspensionOf'>
  suspensionFacts: Pick<SuspensionFacts, 'noteDelivered'>
}

/**
 * Decides which answers carry the suspension of the agent that they go to, and notes that as its delivery: an agent that
 * neither polls nor listens still receives it. Of a request for several agents, the first suspended one counts.
 */
export const createSuspendedVersion =
  ({ suspendedAgents, suspensionFacts }: Parts): SuspendedVersion =>
  (principal, named) => {
    if (suspendedAgents.isEmpty) return undefined
    const ids = named.filter((id) => typeof id === 'string')
    for (const id of ids.length > 0 ? ids : [undefined]) {
      const held = suspendedAgents.suspensionOf(principal, id)
      if (held) {
        suspensionFacts.noteDelivered(held.instanceId, held.version, held.requestedAt, 'answer')
        return held.version
      }
    }
    return undefined
  }
