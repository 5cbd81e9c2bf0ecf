import { useState } from 'react'
import type { Agent } from '../service/fleet.ts'
import { useMayOperate } from '../service/session.ts'
import { useKeys } from '../shell/keys.ts'
import { ResumeDialog, SuspendDialog } from './suspend-dialog.tsx'

/** Button to suspend or resume an agent, depending on its state. For viewers it shows why it is disabled. */
export function ControlButton({
  agent,
  because,
  isKeyed = false,
}: {
  agent: Agent
  because?: string
  /** Whether the key `s` activates the button. */
  isKeyed?: boolean
}) {
  const mayOperate = useMayOperate()
  const [open, setOpen] = useState<'suspend' | 'resume'>()
  const isSuspended = agent.status === 'suspended'
  const press = () => setOpen(isSuspended ? 'resume' : 'suspend')
  useKeys(isKeyed && mayOperate ? { s: press } : {})
  return (
    <>
      <button
        type="button"
        className={isSuspended ? '' : 'danger'}
        disabled={!mayOperate}
        title={mayOperate ? undefined : 'Your key has scope viewer: only operators and admins suspend and resume'}
        onClick={press}
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
        {isKeyed && mayOperate && <kbd>s</kbd>}
      </button>
      {open === 'suspend' && <SuspendDialog agent={agent} because={because ?? ''} onClose={() => setOpen(undefined)} />}
      {open === 'resume' && <ResumeDialog agent={agent} onClose={() => setOpen(undefined)} />}
    </>
  )
}
