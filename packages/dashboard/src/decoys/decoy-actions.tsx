import { limits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { call } from '../data/client.ts'
import type { DecoyDetail } from '../data/decoys.ts'
import { queryKeys } from '../data/query-keys.ts'
import { ChangeButton, ChangeDialog, entered } from '../parts/change-dialog.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { Snippet } from '../parts/snippet.tsx'
import { TextField } from '../ui/field.tsx'
import { Notice } from '../ui/panel.tsx'
import { allAgents } from './decoy-agent.tsx'

const changes = [queryKeys.decoys]

/**
 * Replaces the value and shows the new one once. Only this component has it. The dialog outlives its button: a rotated
 * decoy is retired, and then cannot be rotated.
 */
function Rotate({ decoy: { id, type, retired_at, deleted_at } }: { decoy: DecoyDetail }) {
  const [isOpen, setOpen] = useState(false)
  const [key, setKey] = useState<string>()
  const isPossible = type === 'api_key' && retired_at === null && deleted_at === null
  return (
    <>
      {isPossible && <OperatorButton onClick={() => setOpen(true)}>Rotate…</OperatorButton>}
      {isOpen && (
        <ChangeDialog
          changes={changes}
          title={key ? 'New key' : 'Rotate decoy?'}
          submit="Rotate"
          send={async () => {
            setKey((await call('rotateDecoy', { params: { id } })).key)
            return undefined
          }}
          onClose={() => {
            setOpen(false)
            setKey(undefined)
          }}
          done={
            key && (
              <>
                <Notice>
                  Copy the key now: it is not shown again. Replace the old key with it, then set the location of the new
                  decoy.
                </Notice>
                <Snippet label="New key" text={key} />
              </>
            )
          }
        >
          <p>
            Creates a new decoy with a new key for the same agent. The old key is retired but still detected, and its
            hits count for this decoy.
          </p>
        </ChangeDialog>
      )}
    </>
  )
}

function SetLocation({ decoy: { id, planted } }: { decoy: DecoyDetail }) {
  return (
    <ChangeButton
      name="Set location…"
      changes={changes}
      title="Location of the decoy"
      submit="Save"
      send={async (form) => {
        const file = entered(form, 'file')
        const body = { note: entered(form, 'note'), ...(file === '' ? {} : { file }) }
        await call('noteDecoyPlanted', { params: { id }, body })
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
    </ChangeButton>
  )
}

function TestHit({ decoy: { id } }: { decoy: DecoyDetail }) {
  return (
    <ChangeButton
      name="Test…"
      changes={changes}
      title="Record a test hit?"
      submit="Record test hit"
      send={async () => {
        await call('testDecoy', { params: { id } })
        return 'Test hit recorded.'
      }}
    >
      <p>
        Creates an event and an alert, both marked as a test. No agent is suspended and the hit is not counted, but the
        risk score includes the breach.
      </p>
    </ChangeButton>
  )
}

function Delete({ decoy: { id, instanceId, hit_count }, onDeleted }: { decoy: DecoyDetail; onDeleted(): void }) {
  return (
    <ChangeButton
      name="Delete…"
      changes={changes}
      title="Delete decoy?"
      submit="Delete decoy"
      kind="act"
      send={async () => {
        await call('deleteHoneypot', { params: { id } })
        onDeleted()
        return 'Decoy deleted.'
      }}
    >
      <p>
        Its use is no longer detected, so remove it from <b>{instanceId ?? allAgents}</b> as well. Its{' '}
        {counted(hit_count, 'hit')} and their events stay.
      </p>
    </ChangeButton>
  )
}

/** The buttons of a decoy's drawer, with their dialogs. */
export function DecoyActions({ decoy, onDeleted }: { decoy: DecoyDetail; onDeleted(): void }) {
  const isKept = decoy.deleted_at === null
  return (
    <>
      {isKept && <SetLocation decoy={decoy} />}
      <Rotate decoy={decoy} />
      {isKept && <TestHit decoy={decoy} />}
      {isKept && <Delete decoy={decoy} onDeleted={onDeleted} />}
    </>
  )
}
