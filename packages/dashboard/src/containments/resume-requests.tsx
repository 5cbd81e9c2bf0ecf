import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ResumeRequest } from '@wardline/contract'
import { limits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { spanText } from '../parts/span.ts'
import { Time, useNow } from '../parts/time.tsx'
import { sentenceOf } from '../service/client.ts'
import { requestedQuery } from '../service/containments.ts'
import { agentQuery } from '../service/fleet.ts'
import { useMayOperate } from '../service/session.ts'
import { ResumeDialog } from '../suspend/suspend-dialog.tsx'
import { selectorText } from './containment-texts.ts'
import { FleetDialog } from './fleet-dialog.tsx'

function ConfirmOne({ id, onClose }: { id: string; onClose(): void }) {
  const { data } = useQuery(agentQuery(id))
  return data ? <ResumeDialog agent={data} onClose={onClose} /> : null
}

/** As many agents as fit into a dialog with little scrolling. */
const pageAgents = 20

/** A list of agents, split into pages. */
function AgentPages({ ids }: { ids: readonly string[] }) {
  const [page, setPage] = useState(0)
  const first = page * pageAgents
  const shown = ids.slice(first, first + pageAgents)
  return (
    <section aria-label="Agents of this request">
      <p className="missing">
        {shown.map((id) => (
          <Link key={id} to="/fleet/$id" params={{ id }}>
            {id}
          </Link>
        ))}
      </p>
      <p className="pages">
        <button type="button" disabled={page === 0} onClick={() => setPage(page - 1)}>
          Previous
        </button>
        <span role="status" className="quiet">
          {first + 1}–{first + shown.length} of {counted(ids.length, 'agent')}
        </span>
        <button type="button" disabled={first + pageAgents >= ids.length} onClick={() => setPage(page + 1)}>
          Next
        </button>
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
      {error && (
        <p role="alert" className="fault">
          <HostileText text={sentenceOf(error)} max={600} />
        </p>
      )}
      {ids ? <AgentPages ids={ids} /> : !error && <p className="quiet">Reading whom the request names…</p>}
    </FleetDialog>
  )
}

/** Whether the request may list only some of its agents. */
const isCut = ({ selector }: ResumeRequest): boolean => (selector?.instances?.length ?? 0) >= limits.listedMembers

function Request({ request, onConfirm }: { request: ResumeRequest; onConfirm(): void }) {
  const { instance_id, selector, agents, by, by_name, own, requested_at, expires_at } = request
  const now = useNow()
  const mayOperate = useMayOperate()
  const why = own
    ? 'You requested it: another operator has to confirm it'
    : mayOperate
      ? undefined
      : 'Needs a key of scope operator'
  return (
    <li className="waiting">
      <div>
        <p>
          Resume{' '}
          {instance_id !== null ? (
            <Link to="/fleet/$id" params={{ id: instance_id }}>
              {instance_id}
            </Link>
          ) : (
            `${counted(agents, 'agent')}: ${selectorText(selector ?? {}, agents)}`
          )}
        </p>
        <p className="quiet">
          requested by <HostileText text={by_name ?? by} max={60} /> <Time at={requested_at} />, until{' '}
          <Time at={expires_at} /> ({spanText(Date.parse(expires_at) - now)} left){why ? `. ${why}.` : ''}
        </p>
      </div>
      <button type="button" className="go" disabled={why !== undefined} onClick={onConfirm}>
        Confirm…
      </button>
    </li>
  )
}

/** Resumes that wait for a second operator: who requested them, for which agents, and until when. */
export function ResumeRequests({ requests }: { requests: readonly ResumeRequest[] }) {
  // Kept in state, because the request disappears when it is confirmed while the dialog still shows the progress.
  const [open, setOpen] = useState<ResumeRequest>()
  const close = () => setOpen(undefined)
  const dialog = open && (
    <>
      {open.instance_id !== null && <ConfirmOne id={open.instance_id} onClose={close} />}
      {open.selector !== null &&
        (open.id !== null && isCut(open) ? (
          <ConfirmMany id={open.id} onClose={close} />
        ) : (
          <FleetDialog action="resume" selector={open.selector} onClose={close} />
        ))}
    </>
  )
  return (
    <>
      {requests.length > 0 && <Requests requests={requests} onConfirm={setOpen} />}
      {dialog}
    </>
  )
}

function Requests({
  requests,
  onConfirm,
}: {
  requests: readonly ResumeRequest[]
  onConfirm(request: ResumeRequest): void
}) {
  return (
    <section className="panel" aria-labelledby="second">
      <header>
        <h2 id="second">Waiting for a second operator</h2>
      </header>
      <ul>
        {requests.map((request) => (
          <Request
            key={`${request.requested_at} ${request.instance_id} ${request.by}`}
            request={request}
            onConfirm={() => onConfirm(request)}
          />
        ))}
      </ul>
    </section>
  )
}
