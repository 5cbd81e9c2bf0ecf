import { Link } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { Button } from '../ui/button.tsx'
import { AgentId } from './agent-id.tsx'

/** The id of an agent, with a link to its page. */
export function AgentLink({ id }: { id: string }) {
  return (
    <Link to="/fleet/$id" params={{ id }} className="hostile">
      <AgentId id={id} />
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

/** As many agents as fit into a dialog or a line of a list. */
const pageAgents = 20

/** A list of agents, split into pages. `count`: number of all agents, of which `ids` may name only some. */
export function AgentPages({ ids, count = ids.length, label }: Omit<AgentLinksProps, 'max'>) {
  const [first, setFirst] = useState(0)
  const shown = ids.slice(first, first + pageAgents)
  return (
    <section aria-label={label}>
      <AgentLinks ids={shown} />
      <p className="chips">
        <Button disabled={first === 0} onClick={() => setFirst(first - pageAgents)}>
          Previous
        </Button>
        <span role="status" className="quiet">
          {first + 1}–{first + shown.length} of {counted(count, 'agent')}
        </span>
        <Button disabled={first + pageAgents >= ids.length} onClick={() => setFirst(first + pageAgents)}>
          Next
        </Button>
      </p>
    </section>
  )
}
