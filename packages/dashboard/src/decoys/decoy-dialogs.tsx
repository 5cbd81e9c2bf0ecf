import { limits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { call } from '../data/client.ts'
import type { DecoyDetail } from '../data/decoys.ts'
import { queryKeys } from '../data/query-keys.ts'
import { ChangeDialog, entered } from '../parts/change-dialog.tsx'
import { Snippet } from '../parts/snippet.tsx'
import { SelectField, TextField } from '../ui/field.tsx'
import { Notice } from '../ui/panel.tsx'
import { dayMs } from '../ui/span.ts'

export type DecoyAction = 'location' | 'rotate' | 'test' | 'delete'

interface DecoyDialogProps {
  action: DecoyAction
  decoy: DecoyDetail
  onDeleted(): void
  onClose(): void
}

/** The dialog of one of the drawer's buttons. */
export function DecoyDialog({ action, decoy, onDeleted, onClose }: DecoyDialogProps) {
  // A rotation shows the new value once. Only this component has it.
  const [newKey, setNewKey] = useState<string>()
  const { id, instanceId, hitCount, planted } = decoy
  const params = { id }
  const dialog = { changes: [queryKeys.decoys], onClose }
  switch (action) {
    case 'location':
      return (
        <ChangeDialog
          {...dialog}
          title="Location of the decoy"
          submit="Save"
          send={async (form) => {
            const file = entered(form, 'file')
            const body = { note: entered(form, 'note'), ...(file === '' ? {} : { file }) }
            await call('noteDecoyPlanted', { params, body })
            return 'Location saved.'
          }}
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
        </ChangeDialog>
      )
    case 'rotate':
      return (
        <ChangeDialog
          {...dialog}
          title={newKey ? 'New key' : 'Rotate decoy?'}
          submit="Rotate"
          send={async () => {
            setNewKey((await call('rotateDecoy', { params })).key)
            return undefined
          }}
          done={
            newKey && (
              <>
                <Notice>
                  Copy the key now: it is not shown again. Replace the old key with it, then set the location of the new
                  decoy.
                </Notice>
                <Snippet label="New key" text={newKey} />
              </>
            )
          }
        >
          <p>
            Creates a new decoy with a new key for the same agent. The old key is retired but still detected, and its
            hits count for this decoy.
          </p>
        </ChangeDialog>
      )
    case 'test':
      return (
        <ChangeDialog
          {...dialog}
          title="Record a test hit?"
          submit="Record test hit"
          send={async () => {
            await call('testDecoy', { params })
            return 'Test hit recorded.'
          }}
        >
          <p>
            Creates an event and an alert, both marked as a test. No agent is suspended and the hit is not counted, but
            the risk score includes the breach.
          </p>
        </ChangeDialog>
      )
    case 'delete':
      return (
        <ChangeDialog
          {...dialog}
          title="Delete decoy?"
          submit="Delete decoy"
          kind="act"
          send={async () => {
            await call('deleteHoneypot', { params })
            onDeleted()
            return 'Decoy deleted.'
          }}
        >
          <p>
            Its use is no longer detected, so remove it from <b>{instanceId}</b> as well. Its {counted(hitCount, 'hit')}{' '}
            and their events stay.
          </p>
        </ChangeDialog>
      )
  }
}

/** Allows for clock differences: the service compares the longest allowed end with its own clock. */
const slackMs = 60_000

export function IgnoreDialog({ onClose }: { onClose(): void }) {
  return (
    <ChangeDialog
      changes={[queryKeys.decoyIgnores]}
      title="Ignore a tool"
      submit="Ignore tool"
      send={async (form) => {
        const until = new Date(Date.now() + Number(form.get('days')) * dayMs - slackMs).toISOString()
        await call('createDecoyIgnore', {
          body: { tool: entered(form, 'tool'), reason: entered(form, 'reason'), until },
        })
        return 'Tool ignored.'
      }}
      onClose={onClose}
    >
      <TextField label="Tool" name="tool" isFirst required maxLength={24} />
      <TextField label="Reason" name="reason" required maxLength={limits.reason} />
      <SelectField
        label="Duration"
        name="days"
        defaultValue={7}
        options={[
          [1, '1 day'],
          [7, '7 days'],
          [30, '30 days'],
          [90, '90 days'],
        ]}
      />
    </ChangeDialog>
  )
}
