import { useQuery } from '@tanstack/react-query'
import { type BodyOf, type DecoyPreset, type HoneypotCreated, limits } from '@wardline/contract'
import { useId, useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { presetsQuery } from '../data/decoys.ts'
import { fleetQuery } from '../data/fleet.ts'
import { queryKeys } from '../data/query-keys.ts'
import { Snippet } from '../parts/snippet.tsx'
import { Dialog, FormDialog } from '../ui/dialog.tsx'
import { SelectField, TextField } from '../ui/field.tsx'
import { Fault, Notice } from '../ui/panel.tsx'

/** Maximum agents suggested while typing: the browser renders each of them. */
const maxOffered = 200

/** Quotes a path for a shell. The part after ~/ is quoted, so that spaces and special characters stay in the name. */
const quotedPath = (path: string): string => {
  const [home, rest] = path.startsWith('~/') ? ['~/', path.slice(2)] : ['', path]
  return home + (/^[\w./-]+$/.test(rest) ? rest : `'${rest.replaceAll("'", `'\\''`)}'`)
}

/** Returns the text to plant; empty for a path decoy that is a pattern or a folder. */
function plantText(preset: DecoyPreset, path: string, key: string | undefined): string {
  if (key === undefined && /[*?]|\/$/.test(path)) return ''
  return preset.snippet.replaceAll('{{value}}', () => key ?? '…').replaceAll('{{path}}', () => quotedPath(path))
}

interface PlantedProps {
  created: HoneypotCreated
  preset: DecoyPreset
  path: string
  agent: string
}

function Planted({ created: { key }, preset, path, agent }: PlantedProps) {
  const text = plantText(preset, path, key)
  return (
    <>
      {key !== undefined && <Notice>Copy the key now: it is not stored and cannot be shown again.</Notice>}
      {text === '' ? (
        <p>
          No file needed: <b>{agent}</b> is detected when it asks for this path.
        </p>
      ) : (
        <Snippet label={key === undefined ? `Run on the host of ${agent}` : `Add to ${preset.place}`} text={text} />
      )}
      {key !== undefined && key !== text && <Snippet label="Key only" text={key} />}
      {key === undefined && text !== '' && <p className="quiet">The file can be empty: only its path is compared.</p>}
      {preset.note !== null && <p className="quiet">{preset.note}</p>}
    </>
  )
}

interface PlantDialogProps {
  preset: string
  agent: string | undefined
  onClose(): void
}

/**
 * Creates a decoy from a preset and shows its value once. Only this component has the value: it is not in the query
 * cache, the address or the browser's storage.
 */
export function PlantDialog({ preset: presetId, agent: forAgent, onClose }: PlantDialogProps) {
  const { data: presets = [], error } = useQuery(presetsQuery)
  const { data: fleet = [] } = useQuery(fleetQuery)
  const [picked, setPicked] = useState(presetId)
  const [agent, setAgent] = useState(forAgent ?? '')
  const [label, setLabel] = useState<string>()
  const [path, setPath] = useState<string>()
  const [created, setCreated] = useState<HoneypotCreated>()
  const { fault, isBusy, run } = useChange({ changes: [queryKeys.decoys] })
  const agents = useId()
  const preset = presets.find(({ id }) => id === picked) ?? presets[0]
  if (!preset) {
    // A dialog sets the focus when it opens, so it opens only once its first field exists.
    if (!error) return null
    return (
      <Dialog title="Plant a decoy" onClose={onClose}>
        <Fault of={error} />
      </Dialog>
    )
  }
  const { type, keyType, place, snippet, note } = preset
  const shownLabel = label ?? preset.label
  const shownPath = path ?? preset.path ?? ''
  const isKnown = agent === '' || fleet.some(({ id }) => id === agent)
  const body: BodyOf<'createHoneypot'> = {
    instanceId: agent,
    type,
    label: shownLabel.trim(),
    ...(keyType === undefined ? { path: shownPath } : { keyType }),
  }
  return (
    <FormDialog
      title={created ? `Decoy created for ${agent}` : 'Plant a decoy'}
      submit="Create decoy"
      fault={fault}
      isBusy={isBusy}
      onSubmit={() =>
        void run(async () => {
          setCreated(await call('createHoneypot', { body }))
          return undefined
        })
      }
      onClose={onClose}
      done={created && <Planted created={created} preset={preset} path={shownPath} agent={agent} />}
    >
      <SelectField
        label="Preset"
        isFirst
        value={preset.id}
        options={[...presets]
          .sort((one, other) => one.type.localeCompare(other.type))
          .map(({ id, title }) => [id, title] as const)}
        onChange={({ target }) => {
          setPicked(target.value)
          setLabel(undefined)
          setPath(undefined)
        }}
      />
      <TextField
        label="Agent"
        hint={isKnown ? undefined : 'No heartbeat from this agent yet.'}
        required
        list={agents}
        pattern="[a-z0-9_\-]+"
        title="Lower-case letters, digits, _ and -"
        maxLength={limits.instanceId}
        autoComplete="off"
        spellCheck={false}
        value={agent}
        onChange={({ target }) => setAgent(target.value)}
      />
      <datalist id={agents}>
        {fleet.slice(0, maxOffered).map(({ id }) => (
          <option key={id} value={id} />
        ))}
      </datalist>
      {type === 'file_path' && (
        <TextField
          label="Path"
          hint="* matches part of a name, ** any folders."
          required
          isCode
          maxLength={limits.decoyPath}
          value={shownPath}
          onChange={({ target }) => setPath(target.value)}
        />
      )}
      <TextField
        label="Label"
        hint="Where the decoy is. Shown in alerts."
        maxLength={limits.label}
        value={shownLabel}
        onChange={({ target }) => setLabel(target.value)}
      />
      {type === 'api_key' && (
        <p className="quiet">
          Goes into <code>{place}</code>
          {snippet !== '{{value}}' && (
            <>
              {' as '}
              <code>{plantText(preset, '', undefined)}</code>
            </>
          )}
        </p>
      )}
      {note !== null && <p className="quiet">{note}</p>}
    </FormDialog>
  )
}
