import { useState } from 'react'
import type { Agent } from '../service/fleet.ts'
import { useMayOperate } from '../service/session.ts'
import { ResumeDialog, SuspendDialog } from './suspend-dialog.tsx'

/** Suspend or resume one agent, whichever acts now; for a viewer the button says why it does not. */
export function ControlButton({ agent, because }: { agent: Agent; because?: string }) {
  const mayOperate = useMayOperate()
  const [open, setOpen] = useState<'suspend' | 'resume'>()
  const isSuspended = agent.status === 'suspended'
  return (
    <>
      <button
        type="button"
        className={isSuspended ? '' : 'danger'}
        disabled={!mayOperate}
        title={mayOperate ? undefined : 'Your key has scope viewer: only operators and admins suspend and resume'}
        onClick={() => setOpen(isSuspended ? 'resume' : 'suspend')}
      >
        <span>
          {isSuspended ? 'Resume' : 'Suspend'}
          <span className="only-read">
            {' '}
            {agent.id}
            {mayOperate ? '' : ' (needs a key of scope operator)'}
          </span>
          …
        </span>
      </button>
      {open === 'suspend' && (
        <SuspendDialog agents={[agent]} because={because ?? ''} onClose={() => setOpen(undefined)} />
      )}
      {open === 'resume' && <ResumeDialog agents={[agent]} onClose={() => setOpen(undefined)} />}
    </>
  )
}
