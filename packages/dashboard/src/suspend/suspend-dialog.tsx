import { useQuery } from '@tanstack/react-query'
import { type FormEvent, useRef, useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { millisecondText, useNow, useZone } from '../parts/time.tsx'
import { type Agent, agentQuery } from '../service/fleet.ts'
import { type ControlRun, useControlRun } from './control-run.ts'
import { EnforcementPoints } from './enforcement-points.tsx'
import { reachOf } from './reach.ts'
import { ReachLine } from './reach-line.tsx'
import { ReasonField } from './reason-field.tsx'
import { StageRow } from './stage-row.tsx'
import { confirmedAfter, msText, stagesOf, stagesOfResume } from './stages.ts'

interface ControlDialogProps {
  agent: Pick<Agent, 'id' | 'suspension_reason'>
  /** Prefilled beginning of the reason. */
  because?: string
  onClose(): void
}

function ReachList({ id }: { id: string }) {
  const { data } = useQuery(agentQuery(id))
  if (!data) return <p className="quiet">Reading what the agent said of itself…</p>
  return (
    <ul className="reach" aria-label="What this reaches">
      {reachOf(data).map(({ what, how, isReached }) => (
        <li key={what}>
          <ReachLine isReached={isReached} what={what} how={how} />
        </li>
      ))}
      <EnforcementPoints action="suspend" agent={data} />
    </ul>
  )
}

/** Describes the outcome so far. It never says "stopped", which takes longer to prove than a dialog is open. */
function outcomeOf(action: 'suspend' | 'resume', { fault, waits, isStored, detail, suspension }: ControlRun): string {
  const done = action === 'suspend' ? 'suspended' : 'resumed'
  if (fault !== undefined) return `Not ${done}.`
  if (waits !== undefined) return 'Waiting for a second operator.'
  if (!isStored) return 'Waiting for the service.'
  if (suspension?.acknowledged_at) {
    const after = Date.parse(suspension.acknowledged_at) - Date.parse(suspension.requested_at)
    return `The agent confirmed after ${msText(after)}. It is proven stopped once it has been silent long enough: its page shows that.`
  }
  const after = action === 'resume' && detail ? confirmedAfter(detail) : undefined
  if (after !== undefined) return `The agent confirmed after ${msText(after)}: it takes new work.`
  return action === 'suspend'
    ? 'The agent has not confirmed yet: it may still be working.'
    : 'Resumed; the agent has not confirmed yet.'
}

function Progress({ action, run }: { action: 'suspend' | 'resume'; run: ControlRun }) {
  const now = useNow()
  const zone = useZone()
  const { fault, waits, detail, suspension } = run
  const stages = suspension
    ? stagesOf(suspension, now, millisecondText(zone, Date.parse(suspension.requested_at)))
    : detail && action === 'resume'
      ? stagesOfResume(detail, now, millisecondText(zone, Date.parse(detail.control.changed_at ?? '')))
      : []
  const sentence = fault ?? waits
  return (
    <>
      <p role="alert" className="outcome">
        {outcomeOf(action, run)}
      </p>
      {sentence !== undefined && (
        <p className={fault === undefined ? '' : 'fault'}>
          <HostileText text={sentence} max={600} />
        </p>
      )}
      {stages.length > 0 && <StageRow stages={stages} />}
    </>
  )
}

/** Asks for the reason, shows what a suspension reaches and what it does not, then shows each stage as it happens. */
export function SuspendDialog({ agent, because = '', onClose }: ControlDialogProps) {
  const { run, start } = useControlRun('suspend', agent.id)
  const [reason, setReason] = useState(because)
  const form = useRef<HTMLFormElement>(null)

  function submit(event: FormEvent) {
    event.preventDefault()
    void start(reason.trim())
  }
  return (
    <Dialog label={`Suspend ${agent.id}`} onClose={onClose}>
      <form ref={form} onSubmit={submit}>
        <h2>Suspend {agent.id}</h2>
        {run ? (
          <Progress action="suspend" run={run} />
        ) : (
          <>
            <ReachList id={agent.id} />
            <ReasonField
              action="suspend"
              reason={reason}
              onReason={setReason}
              onSubmit={() => form.current?.requestSubmit()}
              isFirst
            />
          </>
        )}
        <div className="foot">
          <button type="button" onClick={onClose}>
            {run ? 'Close' : 'Cancel'} <kbd>Esc</kbd>
          </button>
          {!run && (
            <button type="submit" className="act" disabled={reason.trim() === ''}>
              Suspend {agent.id} <kbd>⌘↵</kbd>
            </button>
          )}
        </div>
      </form>
    </Dialog>
  )
}

export function ResumeDialog({ agent, onClose }: ControlDialogProps) {
  const { run, start } = useControlRun('resume', agent.id)
  return (
    <Dialog label={`Resume ${agent.id}`} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          void start('')
        }}
      >
        <h2>Resume {agent.id}</h2>
        {run ? (
          <Progress action="resume" run={run} />
        ) : (
          <>
            <p>Suspended because of:</p>
            <p className="why">
              <HostileText text={agent.suspension_reason ?? ''} />
            </p>
            <p className="quiet">From then on it takes new work. Is the cause gone?</p>
          </>
        )}
        <div className="foot">
          <button type="button" onClick={onClose}>
            {run ? 'Close' : 'Cancel'} <kbd>Esc</kbd>
          </button>
          {!run && (
            <button type="submit" className="go">
              Resume {agent.id}
            </button>
          )}
        </div>
      </form>
    </Dialog>
  )
}
