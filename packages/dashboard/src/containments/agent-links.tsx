import { Link } from '@tanstack/react-router'
import css from './containments.module.css'

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
    <p className={css.agents}>
      {label && <span className="quiet">{label}</span>}
      {shown.map((id) => (
        <Link key={id} to="/fleet/$id" params={{ id }}>
          {id}
        </Link>
      ))}
      {count > shown.length && <span className="quiet">and {(count - shown.length).toLocaleString('en')} more</span>}
    </p>
  )
}
