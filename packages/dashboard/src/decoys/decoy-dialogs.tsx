import { limits, type Rotated } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import type { DecoyDetail } from '../data/decoys.ts'
import { queryKeys } from '../data/query-keys.ts'
import { Snippet } from '../parts/snippet.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { TextField } from '../ui/field.tsx'
import { Notice } from '../ui/panel.tsx'

export type DecoyAction = 'location' | 'rotate' | 'test' | 'delete'

interface DecoyDialogProps {
  decoy: DecoyDetail
  onDeleted(): void
  onClose(): void
}

/** Replaces the value and shows the new one once. Only this component has it. */
function RotateDialog({ decoy: { id }, onClose }: DecoyDialogProps) {
  const { fault, isBusy, run } = useChange({ changes: [queryKeys.decoys] })
  const [rotated, setRotated] = useState<Rotated>()
  return (
    <FormDialog
      title={rotated ? 'New key' : 'Rotate decoy?'}
      submit="Rotate"
      fault={fault}
      isBusy={isBusy}
      onSubmit={() =>
        void run(async () => {
          setRotated(await call('rotateDecoy', { params: { id } }))
          return undefined
        })
      }
      onClose={onClose}
      done={
        rotated && (
          <>
            <Notice>
              Copy the key now: it is not shown again. Replace the old key with it, then set the location of the new
              decoy.
            </Notice>
            <Snippet label="New key" text={rotated.key} />
          </>
        )
      }
    >
      <p>
        Creates a new decoy with a new key for the same agent. The old key is retired but still detected, and its hits
        count for this decoy.
      </p>
    </FormDialog>
  )
}

function TestDialog({ decoy: { id }, onClose }: DecoyDialogProps) {
  const { fault, isBusy, run } = useChange({ changes: [queryKeys.decoys] })
  async function send() {
    const isDone = await run(async () => {
      await call('testDecoy', { params: { id } })
      return 'Test hit recorded.'
    })
    if (isDone) onClose()
  }
  return (
    <FormDialog
      title="Record a test hit?"
      submit="Record test hit"
      fault={fault}
      isBusy={isBusy}
      onSubmit={() => void send()}
      onClose={onClose}
    >
      <p>
        Creates an event and an alert, both marked as a test. No agent is suspended and the hit is not counted, but the
        risk score includes the breach.
      </p>
    </FormDialog>
  )
}

function LocationDialog({ decoy: { id, planted }, onClose }: DecoyDialogProps) {
  const { fault, isBusy, run } = useChange({ changes: [queryKeys.decoys] })
  async function save(form: FormData) {
    const file = String(form.get('file')).trim()
    const body = { note: String(form.get('note')).trim(), ...(file === '' ? {} : { file }) }
    const isDone = await run(async () => {
      await call('noteDecoyPlanted', { params: { id }, body })
      return 'Location saved.'
    })
    if (isDone) onClose()
  }
  return (
    <FormDialog
      title="Location of the decoy"
      submit="Save"
      fault={fault}
      isBusy={isBusy}
      onSubmit={(form) => void save(form)}
      onClose={onClose}
    >
      <TextField
        label="Location"
        hint="Where the decoy is planted. Do not enter its value."
        name="note"
        isFirst
        required
        maxLength={limits.reason}
        defaultValue={planted?.note}
      />
      <TextField
        label="File (optional)"
        hint="Path of the file, for the ignore list of a secret scanner."
        name="file"
        isCode
        maxLength={limits.decoyPath}
        defaultValue={planted?.file ?? ''}
      />
    </FormDialog>
  )
}

function DeleteDialog({ decoy: { id, instanceId, hitCount }, onDeleted, onClose }: DecoyDialogProps) {
  const { fault, isBusy, run } = useChange({ changes: [queryKeys.decoys] })
  const remove = async () => {
    await call('deleteHoneypot', { params: { id } })
    onDeleted()
    return 'Decoy deleted.'
  }
  return (
    <FormDialog
      title="Delete decoy?"
      submit="Delete decoy"
      kind="act"
      fault={fault}
      isBusy={isBusy}
      onSubmit={() => void run(remove)}
      onClose={onClose}
    >
      <p>
        Its use is no longer detected, so remove it from <b>{instanceId}</b> as well. Its {counted(hitCount, 'hit')} and
        their events stay.
      </p>
    </FormDialog>
  )
}

const dialogs = { location: LocationDialog, rotate: RotateDialog, test: TestDialog, delete: DeleteDialog }

/** The dialog of one of the drawer's buttons. */
export function DecoyDialog({ action, ...props }: DecoyDialogProps & { action: DecoyAction }) {
  const Shown = dialogs[action]
  return <Shown {...props} />
}
