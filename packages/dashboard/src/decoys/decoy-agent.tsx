import { AgentLink } from '../parts/agent-link.tsx'

/** In place of an agent's id, for a path that is a decoy for every agent. */
export const allAgents = 'all agents'

/** The agent for which a decoy is planted. */
export const DecoyAgent = ({ id }: { id: string | null }) => (id === null ? allAgents : <AgentLink id={id} />)
