import { useQuery } from '@tanstack/react-query'
import { limits, type ResumeRequest } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { requestedQuery } from '../data/containments.ts'
import { agentQuery } from '../data/fleet.ts'
import { ResumeDialog } from '../suspend/suspend-dialog.tsx'
import { Button } from '../ui/button.tsx'
import { Fault } from '../ui/panel.tsx'
import { AgentLinks } from './agent-links.tsx'
import { FleetDialog } from './fleet-dialog.tsx'

function ConfirmOne({ id, onClose }: { id: string; onClose(): void }) {
  const { data } = useQuery(agentQuery(id))
  return data && <ResumeDialog agent={data} onClose={onClose} />
}

/** As many agents as fit into a dialog with little scrolling. */
const pageAgents = 20

/** A list of agents, split into pages. */
function AgentPages({ ids }: { ids: readonly string[] }) {
  const [first, setFirst] = useState(0)
  const shown = ids.slice(first, first + pageAgents)
  return (
    <section aria-label="Agents of this request">
      <AgentLinks ids={shown} />
      <p className="chips">
        <Button disabled={first === 0} onClick={() => setFirst(first - pageAgents)}>
          Previous
        </Button>
        <span role="status" className="quiet">
          {first + 1}–{first + shown.length} of {counted(ids.length, 'agent')}
        </span>
        <Button disabled={first + pageAgents >= ids.length} onClick={() => setFirst(first + pageAgents)}>
          Next
        </Button>
      </p>
    </section>
  )
}

/**
 * Confirms a request of more agents than the list contains: shows the second operator all of them, and sends all their
 * ids.
 */
function ConfirmMany({ id, onClose }: { id: string; onClose(): void }) {
  const { data: ids, error } = useQuery(requestedQuery(id))
  return (
    <FleetDialog action="resume" selector={ids && { instances: ids }} onClose={onClose}>
      <Fault of={error} />
      {ids ? <AgentPages ids={ids} /> : !error && <p className="quiet">Loading the agents of this request…</p>}
    </FleetDialog>
  )
}

/** The second operator's dialog for a resume. */
export function ConfirmDialog({ request, onClose }: { request: ResumeRequest; onClose(): void }) {
  const { id, instance_id, selector } = request
  if (instance_id !== null) return <ConfirmOne id={instance_id} onClose={onClose} />
  // The request may list only some of its agents.
  const isCut = (selector?.instances?.length ?? 0) >= limits.listedMembers
  if (id !== null && isCut) return <ConfirmMany id={id} onClose={onClose} />
  return <FleetDialog action="resume" selector={selector ?? undefined} onClose={onClose} />
}
