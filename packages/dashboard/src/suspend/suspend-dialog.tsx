import type { ContainmentAction } from '@wardline/contract'
import { useState } from 'react'
import type { Agent } from '../data/fleet.ts'
import { FormDialog } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault } from '../ui/panel.tsx'
import { commandKey } from '../ui/shortcuts.ts'
import { millisecondText, useNow, useZone } from '../ui/time.tsx'
import { type ControlRun, useControlRun } from './control-run.ts'
import { AgentReach } from './reach.tsx'
import { ReasonField } from './reason-field.tsx'
import { StageRow } from './stage-row.tsx'
import { confirmedAfter, msText, stagesOf, stagesOfResume } from './stages.ts'
import css from './suspend.module.css'

/** Describes the outcome so far. It never says "stopped", which takes longer to prove than a dialog is open. */
function outcomeOf(
  action: ContainmentAction,
  { waits, isSaved, detail, suspension }: ControlRun,
  isRefused: boolean,
): string {
  const isSuspend = action === 'suspend'
  if (isRefused) return `Not ${isSuspend ? 'suspended' : 'resumed'}.`
  if (waits !== undefined) return 'Waiting for a second operator.'
  if (!isSaved) return 'Waiting for the service.'
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
  action: ContainmentAction
  run: ControlRun
  fault: Error | undefined
}

function Progress({ action, run, fault }: ProgressProps) {
  const now = useNow()
  const zone = useZone()
  const { waits, detail, suspension } = run
  const clock = (at: string | null) => millisecondText(zone, Date.parse(at ?? ''))
  const resumed = action === 'resume' && detail ? stagesOfResume(detail, now, clock(detail.control.changed_at)) : []
  const stages = suspension ? stagesOf(suspension, now, clock(suspension.requested_at)) : resumed
  return (
    <>
      <p aria-live="assertive">
        <b>{outcomeOf(action, run, fault !== undefined)}</b>
      </p>
      {waits !== undefined && (
        <p>
          <HostileText text={waits} max={600} />
        </p>
      )}
      {stages.length > 0 && <StageRow stages={stages} />}
      <Fault of={fault} />
    </>
  )
}

interface ControlDialogProps {
  action: ContainmentAction
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
      kind={isSuspend ? 'act' : 'go'}
      shortcut={`${commandKey}↵`}
      isReady={!isSuspend || reason.trim() !== ''}
      done={run && <Progress action={action} run={run} fault={fault} />}
      onSubmit={() => start(reason.trim())}
      onClose={onClose}
    >
      {isSuspend ? (
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
