import { type BodyOf, type KeyCreated, type KeyScope, type KeyView, keyScopes, limits } from '@wardline/contract'
import { useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { ChangeDialog, entered } from '../parts/change-dialog.tsx'
import { Snippet } from '../parts/snippet.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { SelectField, TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Notice } from '../ui/panel.tsx'
import { dayMs } from '../ui/span.ts'

const daySeconds = dayMs / 1_000

const grants: Record<KeyScope, string> = {
  agent: 'Sends heartbeats and events for its agents and checks decoys; reads nothing.',
  viewer: 'Reads everything, changes nothing.',
  operator: 'Reads everything, suspends and resumes agents, plants decoys, handles alerts.',
  admin: 'Everything, including keys.',
}

/** The key that a request created. Only its dialog has it, and loses it when it closes. */
function useCreated() {
  const { fault, isBusy, run } = useChange({ changes: [queryKeys.keys] })
  const [created, setCreated] = useState<KeyCreated>()
  const create = (request: () => Promise<KeyCreated>) => void run(async () => setCreated(await request()))
  const done = created && (
    <>
      <Notice>Copy the key now: only its hash is saved, so it cannot be shown again.</Notice>
      <Snippet label={`Key with scope ${created.scope}`} text={created.key} />
    </>
  )
  return { fault, isBusy, create, done }
}

/** The entries of a field, separated by commas or spaces; none if the field is absent. */
const listed = (form: FormData, name: string): string[] =>
  String(form.get(name) ?? '')
    .split(/[\s,]+/)
    .filter((entry) => entry !== '')

function CreateDialog({ onClose }: { onClose(): void }) {
  const { create, ...dialog } = useCreated()
  const [scope, setScope] = useState<KeyScope>('agent')
  function submit(form: FormData) {
    const name = entered(form, 'name')
    const days = Number(form.get('days'))
    const approves = listed(form, 'approves')
    const team = listed(form, 'team')
    const models = listed(form, 'models')
    const body: BodyOf<'createKey'> = {
      scope,
      ...(name === '' ? {} : { name }),
      ...(scope === 'agent' ? { instances: listed(form, 'instances') } : {}),
      ...(approves.length > 0 ? { approves } : {}),
      ...(team.length > 0 ? { tags_scope: team } : {}),
      ...(models.length > 0 ? { models } : {}),
      ...(form.get('holder') === 'supervisor' ? { supervises: true } : {}),
      ...(days === 0 ? {} : { expires_at: new Date(Date.now() + days * dayMs).toISOString() }),
    }
    create(() => call('createKey', { body }))
  }
  return (
    <FormDialog
      {...dialog}
      title={dialog.done ? 'Key created' : 'Create a key'}
      submit="Create key"
      onSubmit={submit}
      onClose={onClose}
    >
      <SelectField
        label="Scope"
        hint={grants[scope]}
        isFirst
        value={scope}
        options={keyScopes}
        onChange={({ target }) => setScope(target.value as KeyScope)}
      />
      {scope === 'agent' && (
        <>
          <TextField
            label="Agents"
            hint="Ids, or prefixes such as deploy-*, separated by commas."
            name="instances"
            required
            isCode
            maxLength={7_000}
          />
          <SelectField
            label="Used by"
            hint="Only the key of a supervisor proves that a suspended agent is held."
            name="holder"
            options={[
              ['agent', 'the agents'],
              ['supervisor', 'their supervisor'],
            ]}
          />
          <TextField
            label="Models"
            hint="Models that it may call through the gateway, such as openai/gpt-5*, separated by commas. Default: all."
            name="models"
            isCode
            maxLength={5_000}
          />
        </>
      )}
      {scope === 'operator' && (
        <TextField
          label="Approves for"
          hint="Tags of agents whose calls it approves, such as team:payments. Default: all agents."
          name="approves"
          isCode
          maxLength={1_000}
        />
      )}
      {(scope === 'operator' || scope === 'viewer') && (
        <TextField
          label="Only agents tagged"
          hint="Tags of operators, such as team:payments: it sees and reaches only agents with one of them. Default: all agents."
          name="team"
          isCode
          maxLength={1_000}
        />
      )}
      <TextField
        label="Name"
        hint={scope === 'agent' ? 'Default: the agents.' : 'Person or service that uses the key.'}
        name="name"
        required={scope !== 'agent'}
        maxLength={limits.keyName}
        autoComplete="off"
      />
      <SelectField
        label="Expires"
        name="days"
        options={[
          [0, 'never'],
          [1, 'in 1 day'],
          [30, 'in 30 days'],
          [90, 'in 90 days'],
          [365, 'in 1 year'],
        ]}
      />
    </FormDialog>
  )
}

interface KeyDialogProps {
  entry: KeyView
  isOwn: boolean
  onClose(): void
}

function RotateDialog({ entry: { id, name }, isOwn, onClose }: KeyDialogProps) {
  const { create, ...dialog } = useCreated()
  function submit(form: FormData) {
    const overlap_seconds = Number(form.get('overlap'))
    create(() => call('rotateKey', { params: { id }, body: { overlap_seconds } }))
  }
  return (
    <FormDialog
      {...dialog}
      title={
        <>
          {dialog.done ? 'New key of' : 'Rotate'} <HostileText text={name} max={60} />
        </>
      }
      submit="Rotate key"
      onSubmit={submit}
      onClose={onClose}
    >
      <p>Creates a key with the same scope and agents. Both keys are valid until the old one expires.</p>
      {isOwn && (
        <Notice>
          This is your key: you are signed out when it expires. Save the new key and sign in with it before that.
        </Notice>
      )}
      <SelectField
        label="Old key expires"
        name="overlap"
        isFirst
        defaultValue={daySeconds}
        options={[
          // Ending one's own key at once would end this session before a person could read the new key.
          ...(isOwn ? [] : [[0, 'immediately'] as const]),
          [3_600, 'in 1 hour'],
          [daySeconds, 'in 1 day'],
          [7 * daySeconds, 'in 7 days'],
        ]}
      />
    </FormDialog>
  )
}

function RevokeDialog({ entry, isOwn, isLastAdmin, onClose }: KeyDialogProps & { isLastAdmin: boolean }) {
  return (
    <ChangeDialog
      changes={[queryKeys.keys]}
      title={
        <>
          Revoke <HostileText text={entry.name} max={60} />?
        </>
      }
      submit="Revoke key"
      kind="act"
      send={async () => {
        await call('revokeKey', { params: { id: entry.id } })
        return `${entry.name} revoked.`
      }}
      onClose={onClose}
    >
      <p>
        The key is refused within one second; its streams and sessions end. This cannot be undone.
        {entry.scope === 'agent' && ' An agent that uses it disconnects, and suspensions no longer reach it.'}
      </p>
      {isOwn && <Notice>This is your key: you are signed out immediately.</Notice>}
      {isLastAdmin && (
        <Notice>
          This is the only valid admin key. To create another one, run on the server:{' '}
          <code>wardline keys create --local --scope admin --name …</code>
        </Notice>
      )}
    </ChangeDialog>
  )
}

type KeyDialogChoice =
  | { action: 'create'; onClose(): void }
  | (KeyDialogProps & { action: 'rotate' | 'revoke'; isLastAdmin: boolean })

export function KeyDialog(props: KeyDialogChoice) {
  if (props.action === 'create') return <CreateDialog onClose={props.onClose} />
  return props.action === 'rotate' ? <RotateDialog {...props} /> : <RevokeDialog {...props} />
}
