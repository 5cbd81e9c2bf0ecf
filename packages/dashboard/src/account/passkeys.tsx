import { useQuery } from '@tanstack/react-query'
import { passkeyLimits } from '@wardline/contract'
import { useState } from 'react'
import { useChange, useFormChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { addPasskey, passkeysQuery } from '../data/passkeys.ts'
import { queryKeys } from '../data/query-keys.ts'
import { sessionQuery } from '../data/session.ts'
import { entered } from '../parts/change-dialog.tsx'
import { Button, ConfirmButton } from '../ui/button.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Panel } from '../ui/panel.tsx'
import { DataTable } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { plainText } from '../ui/unseen-characters.ts'

const changes = [queryKeys.passkeys, queryKeys.session]

function AddDialog({ onClose }: { onClose(): void }) {
  const dialog = useFormChange({
    changes,
    save: async (form) => {
      await addPasskey(entered(form, 'name'))
      return 'Passkey added.'
    },
    onClose,
  })
  return (
    <FormDialog {...dialog} title="Add a passkey" submit="Add passkey" kind="go">
      <p>It signs in with everything that the local admin key may do. The browser asks for a finger, face or PIN.</p>
      <TextField
        label="Name"
        hint="The person and device, such as “Ada, laptop”: the audit log shows it."
        name="name"
        required
        maxLength={passkeyLimits.name}
        autoComplete="off"
      />
    </FormDialog>
  )
}

/** The passkeys of the local admin. */
export function Passkeys() {
  const { data: session } = useQuery(sessionQuery)
  const { data, error } = useQuery(passkeysQuery)
  const change = useChange({ changes })
  const [isAdding, setAdding] = useState(false)
  const remove = (id: string) => change.run(() => call('removePasskey', { params: { id } }), 'Passkey removed.')
  if (data?.passkeys.length === 0 && session?.person) return null
  return (
    <>
      <DataTable
        title="Passkeys of the local admin"
        fault={error ?? change.fault}
        rows={data?.passkeys}
        rowKey={({ id }) => id}
        empty="No passkeys. With one, you sign in without pasting the local admin key."
        end={
          data?.unavailable === null && (
            <Button disabled={data.passkeys.length >= passkeyLimits.passkeys} onClick={() => setAdding(true)}>
              Add a passkey…
            </Button>
          )
        }
        columns={[
          {
            name: 'Name',
            cell: ({ id, name }) => (
              <>
                <b>
                  <HostileText text={name} max={passkeyLimits.name} />
                </b>
                {id === session?.key_id && ' (this session)'}
                <div className="quiet mono">{id}</div>
              </>
            ),
          },
          {
            name: 'Last used',
            kind: 'number',
            cell: ({ last_used_at }) => (last_used_at === null ? 'never' : <Time at={last_used_at} />),
          },
          { name: 'Added', kind: 'number', isWide: true, cell: ({ created_at }) => <Time at={created_at} /> },
        ]}
        actions={({ id, name }) => (
          <ConfirmButton
            sure="Remove it"
            about={plainText(name)}
            disabled={change.isBusy}
            onConfirm={() => void remove(id)}
          >
            Remove
          </ConfirmButton>
        )}
      />
      {typeof data?.unavailable === 'string' && (
        <Panel label="Passkeys cannot be added">
          <p className="inner quiet">{data.unavailable}</p>
        </Panel>
      )}
      {isAdding && <AddDialog onClose={() => setAdding(false)} />}
    </>
  )
}
