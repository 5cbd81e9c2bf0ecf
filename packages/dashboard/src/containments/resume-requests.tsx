import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ResumeRequest } from '@wardline/contract'
import { limits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { spanText } from '../parts/span.ts'
import { Time, useNow } from '../parts/time.tsx'
import { agentQuery } from '../service/fleet.ts'
import { useMayOperate } from '../service/session.ts'
import { ResumeDialog } from '../suspend/suspend-dialog.tsx'
import { selectorText } from './containment-texts.ts'
import { FleetDialog } from './fleet-dialog.tsx'

function ConfirmOne({ id, onClose }: { id: string; onClose(): void }) {
  const { data } = useQuery(agentQuery(id))
  return data ? <ResumeDialog agent={data} onClose={onClose} /> : null
}

function Request({ request, onConfirm }: { request: ResumeRequest; onConfirm(): void }) {
  const { instance_id, selector, agents, by, by_name, own, requested_at, expires_at } = request
  const now = useNow()
  const mayOperate = useMayOperate()
  // The same agents have to be named to confirm it, and of a long list the service shows a part.
  const isCut = (selector?.instances?.length ?? 0) >= limits.listedMembers
  const why = own
    ? 'You requested it: another operator has to confirm it'
    : isCut
      ? 'The request names more agents than are listed: select the same ones in the fleet'
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

/** Resumes that wait for the second operator: who asked, for what, and until when. */
export function ResumeRequests({ requests }: { requests: readonly ResumeRequest[] }) {
  // The request is gone as soon as it is confirmed; the dialog then shows what comes of it.
  const [open, setOpen] = useState<ResumeRequest>()
  const close = () => setOpen(undefined)
  const dialog = open && (
    <>
      {open.instance_id !== null && <ConfirmOne id={open.instance_id} onClose={close} />}
      {open.selector !== null && <FleetDialog action="resume" selector={open.selector} onClose={close} />}
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
