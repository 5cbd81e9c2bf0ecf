import { Link } from '@tanstack/react-router'

/** The id of an agent, with a link to its page. */
export function AgentLink({ id }: { id: string }) {
  return (
    <Link to="/fleet/$id" params={{ id }} className="hostile">
      {id}
    </Link>
  )
}

interface AgentLinksProps {
  ids: readonly string[]
  /** Number of all agents, of which `ids` may name only some. */
  count?: number
  /** Agents shown. */
  max?: number
  label?: string
}

/** Ids of agents, and how many more there are. */
export function AgentLinks({ ids, count = ids.length, max = ids.length, label }: AgentLinksProps) {
  const shown = ids.slice(0, max)
  return (
    <p className="chips">
      {label && <span className="quiet">{label}</span>}
      {shown.map((id) => (
        <AgentLink key={id} id={id} />
      ))}
      {count > shown.length && <span className="quiet">and {(count - shown.length).toLocaleString('en')} more</span>}
    </p>
  )
}
