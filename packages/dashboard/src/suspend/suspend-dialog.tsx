import { useState } from 'react'
import type { Agent } from '../data/fleet.ts'
import { FormDialog } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { millisecondText, useNow, useZone } from '../ui/time.tsx'
import { type Action, type ControlRun, useControlRun } from './control-run.ts'
import { AgentReach } from './reach.tsx'
import { ReasonField } from './reason-field.tsx'
import { StageRow } from './stage-row.tsx'
import { confirmedAfter, msText, stagesOf, stagesOfResume } from './stages.ts'
import css from './suspend.module.css'

/** Describes the outcome so far. It never says "stopped", which takes longer to prove than a dialog is open. */
function outcomeOf(action: Action, { waits, isStored, detail, suspension }: ControlRun, isRefused: boolean): string {
  const isSuspend = action === 'suspend'
  if (isRefused) return `Not ${isSuspend ? 'suspended' : 'resumed'}.`
  if (waits !== undefined) return 'Waiting for a second operator.'
  if (!isStored) return 'Waiting for the service.'
  if (suspension?.acknowledged_at) {
    const after = Date.parse(suspension.acknowledged_at) - Date.parse(suspension.requested_at)
    return `The agent confirmed after ${msText(after)}. It is proven stopped once it stays silent; its page shows that.`
  }
  const after = !isSuspend && detail ? confirmedAfter(detail) : undefined
  if (after !== undefined) return `The agent confirmed after ${msText(after)} and accepts new work.`
  return isSuspend
    ? 'The agent has not confirmed yet: it may still be working.'
    : 'Resumed. The agent has not confirmed yet.'
}

interface ProgressProps {
  action: Action
  run: ControlRun
  isRefused: boolean
}

function Progress({ action, run, isRefused }: ProgressProps) {
  const now = useNow()
  const zone = useZone()
  const { waits, detail, suspension } = run
  const clock = (at: string | null) => millisecondText(zone, Date.parse(at ?? ''))
  const stages = suspension
    ? stagesOf(suspension, now, clock(suspension.requested_at))
    : detail && action === 'resume'
      ? stagesOfResume(detail, now, clock(detail.control.changed_at))
      : []
  return (
    <>
      <p aria-live="assertive" className={css.outcome}>
        {outcomeOf(action, run, isRefused)}
      </p>
      {waits !== undefined && (
        <p>
          <HostileText text={waits} max={600} />
        </p>
      )}
      {stages.length > 0 && <StageRow stages={stages} />}
    </>
  )
}

interface ControlDialogProps {
  action: Action
  agent: Pick<Agent, 'id' | 'suspension_reason'>
  /** Prefilled beginning of the reason. */
  because?: string | undefined
  onClose(): void
}

/** Asks for the reason, shows what a suspension reaches and what it does not, then shows each stage as it happens. */
export function ControlDialog({ action, agent, because = '', onClose }: ControlDialogProps) {
  const { run, fault, start } = useControlRun(action, agent.id)
  const [reason, setReason] = useState(because)
  const isSuspend = action === 'suspend'
  const title = `${isSuspend ? 'Suspend' : 'Resume'} ${agent.id}`
  return (
    <FormDialog
      title={title}
      submit={title}
      {...(isSuspend ? { kind: 'act', shortcut: '⌘↵' } : {})}
      isReady={!isSuspend || reason.trim() !== ''}
      isOver={run !== undefined}
      fault={fault}
      onSubmit={() => start(reason.trim())}
      onClose={onClose}
    >
      {run ? (
        <Progress action={action} run={run} isRefused={fault !== undefined} />
      ) : isSuspend ? (
        <>
          <AgentReach id={agent.id} />
          <ReasonField action="suspend" reason={reason} onReason={setReason} isFirst />
        </>
      ) : (
        <>
          <p>Reason of the suspension:</p>
          <p className={css.why}>
            <HostileText text={agent.suspension_reason ?? ''} />
          </p>
          <p className="quiet">The agent will accept new work. Make sure that the cause is fixed.</p>
        </>
      )}
    </FormDialog>
  )
}

export const SuspendDialog = (props: Omit<ControlDialogProps, 'action'>) => (
  <ControlDialog action="suspend" {...props} />
)
export const ResumeDialog = (props: Omit<ControlDialogProps, 'action'>) => <ControlDialog action="resume" {...props} />
