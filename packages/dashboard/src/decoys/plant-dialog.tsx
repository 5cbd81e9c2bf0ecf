import { useQuery } from '@tanstack/react-query'
import { type DecoyPreset, limits } from '@wardline/contract'
import { useId, useState } from 'react'
import { call } from '../data/client.ts'
import { presetsQuery } from '../data/decoys.ts'
import { agentsQuery, foundAgentsQuery } from '../data/fleet.ts'
import { queryKeys } from '../data/query-keys.ts'
import { ChangeDialog, entered } from '../parts/change-dialog.tsx'
import { Snippet } from '../parts/snippet.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { SelectField, TextField } from '../ui/field.tsx'
import { Fault, Notice } from '../ui/panel.tsx'
import { allAgents } from './decoy-agent.tsx'

interface Created {
  /** Undefined for a path. */
  key: string | undefined
  path: string
}

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
  preset: DecoyPreset
  agent: string
  isForAll: boolean
  created: Created
}

function Planted({ preset, agent, isForAll, created: { key, path } }: PlantedProps) {
  const text = plantText(preset, path, key)
  return (
    <>
      {key !== undefined && <Notice>Copy the key now: it is not saved and cannot be shown again.</Notice>}
      {text === '' ? (
        <p>No file needed: {isForAll ? 'any agent' : <b>{agent}</b>} is detected when it asks for this path.</p>
      ) : (
        <Snippet
          label={
            key === undefined
              ? `Run on ${isForAll ? 'each host of an agent' : `the host of ${agent}`}`
              : `Add to ${preset.place}`
          }
          text={text}
        />
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
  const [picked, setPicked] = useState(presetId)
  const [agent, setAgent] = useState(forAgent ?? '')
  const [isForOne, setForOne] = useState(forAgent !== undefined)
  const [created, setCreated] = useState<Created>()
  const { data: found = [] } = useQuery(foundAgentsQuery(agent.trim(), maxOffered))
  const { data: named } = useQuery(agentsQuery(/^[a-z0-9_-]+$/.test(agent) ? [agent] : []))
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
  const { id, type, keyType, place, snippet, note } = preset
  // Keys are planted at one agent, so that the agent whose key leaked is known.
  const isForAll = type === 'file_path' && !isForOne
  const isKnown = agent === '' || !named || named.some(({ id }) => id === agent)
  return (
    <ChangeDialog
      changes={[queryKeys.decoys]}
      title={created ? `Decoy created for ${isForAll ? allAgents : agent}` : 'Plant a decoy'}
      submit="Create decoy"
      send={async (form) => {
        const path = String(form.get('path') ?? '')
        const kind = keyType === undefined ? { path } : { keyType }
        const body = { ...(isForAll ? {} : { instanceId: agent }), type, label: entered(form, 'label'), ...kind }
        setCreated({ key: (await call('createHoneypot', { body })).key, path })
        return undefined
      }}
      onClose={onClose}
      done={created && <Planted preset={preset} agent={agent} isForAll={isForAll} created={created} />}
    >
      <SelectField
        label="Preset"
        isFirst
        value={id}
        options={[...presets]
          .sort((one, other) => one.type.localeCompare(other.type))
          .map((each) => [each.id, each.title] as const)}
        onChange={({ target }) => setPicked(target.value)}
      />
      {type === 'file_path' && (
        <SelectField
          label="Agents"
          value={isForAll ? 'all' : 'one'}
          options={[
            ['all', 'All agents'],
            ['one', 'One agent'],
          ]}
          onChange={({ target }) => setForOne(target.value === 'one')}
        />
      )}
      {!isForAll && (
        <>
          <TextField
            label="Agent"
            hint={isKnown ? undefined : 'No heartbeat from this agent yet.'}
            required
            list={agents}
            pattern="[a-z0-9_\-]+"
            title="Lowercase letters, digits, _ and -"
            maxLength={limits.instanceId}
            autoComplete="off"
            spellCheck={false}
            value={agent}
            onChange={({ target }) => setAgent(target.value)}
          />
          <datalist id={agents}>
            {found.map((one) => (
              <option key={one.id} value={one.id} />
            ))}
          </datalist>
        </>
      )}
      {type === 'file_path' && (
        <TextField
          key={`path ${id}`}
          label="Path"
          hint="* matches part of a name, ** any folders."
          name="path"
          required
          isCode
          maxLength={limits.decoyPath}
          defaultValue={preset.path}
        />
      )}
      <TextField
        key={`label ${id}`}
        label="Label"
        hint="Where the decoy is. Shown in alerts."
        name="label"
        maxLength={limits.label}
        defaultValue={preset.label}
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
    </ChangeDialog>
  )
}
