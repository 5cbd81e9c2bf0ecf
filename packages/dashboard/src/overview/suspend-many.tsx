import { limits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { useMayOperate } from '../data/session.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { lazyDialog, usePreload } from '../ui/lazy-dialog.tsx'
import { Notice } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'

const FleetDialog = lazyDialog(async () => (await import('../containments/fleet-dialog.tsx')).FleetDialog)

interface SuspendManyProps {
  ids: readonly string[]
  /** What they did. */
  because: string
  isKeyed: boolean
}

/** Button that suspends the agents of a line as one containment, after its dialog. */
export function SuspendMany({ ids, because, isKeyed }: SuspendManyProps) {
  const mayOperate = useMayOperate()
  // The line may get or lose agents while the dialog is open.
  const [chosen, setChosen] = useState<readonly string[]>()
  const press = () => setChosen(ids.toSorted())
  const hasKey = isKeyed && mayOperate
  useKeys(hasKey ? { s: press } : {})
  usePreload(FleetDialog.load)
  const max = limits.selectedInstances
  return (
    <>
      <OperatorButton kind="danger" about={`: ${because}`} onClick={press} {...(hasKey ? { shortcut: 's' } : {})}>
        Suspend {counted(Math.min(ids.length, max), 'agent')}…
      </OperatorButton>
      {chosen && <ChosenDialog ids={chosen} because={because} onClose={() => setChosen(undefined)} />}
    </>
  )
}

function ChosenDialog({ ids, because, onClose }: { ids: readonly string[]; because: string; onClose(): void }) {
  const max = limits.selectedInstances
  const [selector] = useState({ instances: ids.slice(0, max) })
  return (
    <FleetDialog action="suspend" selector={selector} because={`${because}: `} onClose={onClose}>
      {ids.length > max && (
        <Notice>
          One containment takes at most {counted(max, 'agent')} by id. Suspend the other{' '}
          {(ids.length - max).toLocaleString('en')} afterwards, or the whole fleet.
        </Notice>
      )}
    </FleetDialog>
  )
}
