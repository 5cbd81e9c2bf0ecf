import type { ResumeRequest } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { AgentLink } from '../parts/agent-link.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { spanText } from '../ui/span.ts'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time, useNow } from '../ui/time.tsx'
import { selectorText } from './containment-texts.ts'

const ConfirmDialog = lazyDialog(async () => (await import('./choose-dialog.tsx')).ConfirmDialog)

function Expiry({ at }: { at: string }) {
  return (
    <>
      <Time at={at} /> ({spanText(Date.parse(at) - useNow())} left)
    </>
  )
}

const columns = (onConfirm: (request: ResumeRequest) => void): Column<ResumeRequest>[] => [
  {
    name: 'Request',
    cell: ({ instance_id: id, agents, selector }) => (
      <>
        Resume{' '}
        {id === null ? `${counted(agents, 'agent')}: ${selectorText(selector ?? {}, agents)}` : <AgentLink id={id} />}
      </>
    ),
  },
  {
    name: 'Requested',
    cell: ({ by, by_name, own, requested_at }) => (
      <>
        requested by <HostileText text={by_name ?? by} max={60} /> <Time at={requested_at} />
        {own && <p className="quiet">Your own request: another operator must confirm it.</p>}
      </>
    ),
  },
  { name: 'Expires', cell: ({ expires_at }) => <Expiry at={expires_at} /> },
  {
    name: 'Confirm',
    isNameHidden: true,
    cell: (request) => (
      <OperatorButton kind="go" disabled={request.own} onClick={() => onConfirm(request)}>
        Confirm…
      </OperatorButton>
    ),
  },
]

/** Resumes that wait for a second operator: who requested them, for which agents, and until when. */
export function ResumeRequests({ requests }: { requests: readonly ResumeRequest[] }) {
  // Kept in state, because the request disappears when it is confirmed while the dialog still shows the progress.
  const [open, setOpen] = useState<ResumeRequest>()
  return (
    <>
      {requests.length > 0 && (
        <DataTable
          title="Waiting for a second operator"
          columns={columns(setOpen)}
          rows={requests}
          rowKey={({ requested_at, instance_id, by }) => `${requested_at} ${instance_id} ${by}`}
        />
      )}
      {open && <ConfirmDialog request={open} onClose={() => setOpen(undefined)} />}
    </>
  )
}
