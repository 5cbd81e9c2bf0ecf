import { useState } from 'react'
import { ChooseDialog } from '../containments/choose-dialog.tsx'
import { FleetDialog } from '../containments/fleet-dialog.tsx'
import { ControlDialog } from '../suspend/suspend-dialog.tsx'
import { TagDialog } from './tag-dialog.tsx'
import type { OpenDialog } from './use-fleet.ts'

/** The open dialog of the screen. Several agents are suspended and resumed as one containment. */
export function FleetDialogs({ action, agents, onClose }: OpenDialog & { onClose(): void }) {
  // The selection may change while the dialog is open.
  const [selector] = useState({ instances: agents?.map(({ id }) => id) ?? [] })
  if (!agents) return <ChooseDialog action={action} onClose={onClose} />
  if (action === 'tag') return <TagDialog agents={agents} onClose={onClose} />
  const [agent] = agents
  if (!agent || agents.length > 1) return <FleetDialog action={action} selector={selector} onClose={onClose} />
  return <ControlDialog action={action} agent={agent} onClose={onClose} />
}
