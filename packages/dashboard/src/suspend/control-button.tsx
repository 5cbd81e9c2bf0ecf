import { useState } from 'react'
import type { Agent } from '../data/fleet.ts'
import { useMayOperate } from '../data/session.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { lazyDialog, usePreload } from '../ui/lazy-dialog.tsx'
import { useKeys } from '../ui/shortcuts.ts'

const ControlDialog = lazyDialog(async () => (await import('./suspend-dialog.tsx')).ControlDialog)

interface ControlButtonProps {
  agent: Agent
  /** Prefilled beginning of the reason. */
  because?: string
  /** Whether the key `s` activates the button. */
  isKeyed?: boolean
  /** Shows no button to resume: that is decided where all of the agent is shown. */
  isSuspendOnly?: boolean
}

/** Button to suspend or resume an agent, depending on its state. For viewers it shows why it is disabled. */
export function ControlButton({ agent, because, isKeyed = false, isSuspendOnly = false }: ControlButtonProps) {
  const mayOperate = useMayOperate()
  const [open, setOpen] = useState<'suspend' | 'resume'>()
  const isSuspended = agent.status === 'suspended'
  const press = () => setOpen(isSuspended ? 'resume' : 'suspend')
  const isShown = !(isSuspended && isSuspendOnly)
  const hasKey = isKeyed && mayOperate && isShown
  useKeys(hasKey ? { s: press } : {})
  usePreload(ControlDialog.load)
  return (
    <>
      {isShown && (
        <OperatorButton
          kind={isSuspended ? 'default' : 'danger'}
          about={agent.id}
          onClick={press}
          {...(hasKey ? { shortcut: 's' } : {})}
        >
          {isSuspended ? 'Resume' : 'Suspend'}
        </OperatorButton>
      )}
      {open && <ControlDialog action={open} agent={agent} because={because} onClose={() => setOpen(undefined)} />}
    </>
  )
}
