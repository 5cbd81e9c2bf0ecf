import { useQuery, useQueryClient } from '@tanstack/react-query'
import type { BodyOf, DecoyPreset, HoneypotCreated } from '@wardline/contract'
import { limits } from '@wardline/contract'
import { type FormEvent, useEffect, useId, useRef, useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { Snippet } from '../parts/snippet.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { decoysKey, presetsQuery } from '../service/decoys.ts'
import { fleetQuery } from '../service/fleet.ts'

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

function Planted({ created, preset, path, agent }: PlantedProps) {
  const text = plantText(preset, path, created.key)
  const isWholeValue = created.key === text
  return (
    <>
      {created.key !== undefined && (
        <p className="notice">
          The key is shown only here. The service keeps no copy: once this is closed, nobody can show it again.
        </p>
      )}
      {text === '' ? (
        <p>
          Nothing needs to be written there: from now on <b>{agent}</b> is noticed when it asks for this path.
        </p>
      ) : (
        <Snippet
          label={created.key === undefined ? `On the host of ${agent}` : `To write into ${preset.place}`}
          text={text}
        />
      )}
      {created.key !== undefined && !isWholeValue && <Snippet label="The key alone" text={created.key} />}
      {created.key === undefined && text !== '' && (
        <p className="quiet">An empty file is enough: its path is what counts.</p>
      )}
      {preset.note !== null && <p className="quiet">{preset.note}</p>}
    </>
  )
}

function PresetOptions({ presets, type }: { presets: readonly DecoyPreset[]; type: DecoyPreset['type'] }) {
  return (
    <optgroup label={type === 'api_key' ? 'Keys' : 'Paths'}>
      {presets
        .filter((preset) => preset.type === type)
        .map(({ id, title }) => (
          <option key={id} value={id}>
            {title}
          </option>
        ))}
    </optgroup>
  )
}

/**
 * Creates a decoy from a preset and shows its value once. Only this component has the value: it is not in the query
 * cache, the address or the browser's storage.
 */
export function PlantDialog({
  preset: presetId,
  agent: forAgent,
  onClose,
}: {
  preset: string
  agent: string | undefined
  onClose(): void
}) {
  const client = useQueryClient()
  const { data: presets = [], error } = useQuery(presetsQuery)
  const { data: fleet = [] } = useQuery(fleetQuery)
  const [picked, setPicked] = useState(presetId)
  const [agent, setAgent] = useState(forAgent ?? '')
  const [label, setLabel] = useState<string>()
  const [path, setPath] = useState<string>()
  const [fault, setFault] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const [created, setCreated] = useState<HoneypotCreated>()
  const agents = useId()
  const closing = useRef<HTMLButtonElement>(null)
  useEffect(() => {
    if (created) closing.current?.focus()
  }, [created])
  const preset = presets.find(({ id }) => id === picked) ?? presets[0]
  if (!preset) {
    // A dialog sets the focus when it opens, so it opens only once its first field exists.
    if (!error) return null
    return (
      <Dialog label="Plant a decoy" onClose={onClose}>
        <p role="alert">{sentenceOf(error)}</p>
      </Dialog>
    )
  }
  const shownLabel = label ?? preset.label
  const shownPath = path ?? preset.path ?? ''
  const known = fleet.some(({ id }) => id === agent)

  async function submit(event: FormEvent) {
    event.preventDefault()
    if (!preset) return
    setBusy(true)
    setFault(undefined)
    const { type, keyType } = preset
    const body: BodyOf<'createHoneypot'> = {
      instanceId: agent,
      type,
      label: shownLabel.trim(),
      ...(keyType === undefined ? { path: shownPath } : { keyType }),
    }
    try {
      setCreated(await call('createHoneypot', { body }))
      await client.invalidateQueries({ queryKey: decoysKey })
    } catch (problem) {
      setFault(sentenceOf(problem))
    }
    setBusy(false)
  }
  return (
    <Dialog label="Plant a decoy" onClose={onClose} closesOutside={created === undefined}>
      <form onSubmit={submit} className="fields">
        <h2>
          {created ? (
            <>
              Created for {agent}: <HostileText text={shownLabel} max={80} />
            </>
          ) : (
            'Plant a decoy'
          )}
        </h2>
        {created ? (
          <Planted created={created} preset={preset} path={shownPath} agent={agent} />
        ) : (
          <>
            <label>
              What
              <select
                data-first
                value={preset.id}
                onChange={(event) => {
                  setPicked(event.target.value)
                  setLabel(undefined)
                  setPath(undefined)
                }}
              >
                <PresetOptions presets={presets} type="api_key" />
                <PresetOptions presets={presets} type="file_path" />
              </select>
            </label>
            <label>
              For which agent
              <input
                required
                list={agents}
                pattern="[a-z0-9_\-]+"
                title="Lower-case letters, digits, _ and -"
                maxLength={limits.instanceId}
                autoComplete="off"
                spellCheck={false}
                value={agent}
                onChange={(event) => setAgent(event.target.value)}
              />
              <datalist id={agents}>
                {fleet.slice(0, maxOffered).map(({ id }) => (
                  <option key={id} value={id} />
                ))}
              </datalist>
            </label>
            {agent !== '' && !known && <p className="quiet">No agent of this id has sent a heartbeat yet.</p>}
            {preset.type === 'file_path' && (
              <label>
                Path; * stands for a part of a name, ** for any folders
                <input
                  required
                  maxLength={limits.decoyPath}
                  autoComplete="off"
                  spellCheck={false}
                  className="mono"
                  value={shownPath}
                  onChange={(event) => setPath(event.target.value)}
                />
              </label>
            )}
            <label>
              Label: where it is, for the person who reads the alert
              <input maxLength={limits.label} value={shownLabel} onChange={(event) => setLabel(event.target.value)} />
            </label>
            {preset.type === 'api_key' && (
              <p className="quiet">
                Goes into <code>{preset.place}</code>
                {preset.snippet !== '{{value}}' && (
                  <>
                    {' as '}
                    <code>{plantText(preset, '', undefined)}</code>
                  </>
                )}
              </p>
            )}
            {preset.note !== null && <p className="quiet">{preset.note}</p>}
            <p role="alert" className="fault">
              {fault}
            </p>
          </>
        )}
        <div className="foot">
          <button ref={closing} type="button" onClick={onClose}>
            {created?.key !== undefined ? 'Close and forget the key' : created ? 'Close' : 'Cancel'} <kbd>Esc</kbd>
          </button>
          {!created && (
            <button type="submit" className="go" disabled={isBusy}>
              Create the decoy
            </button>
          )}
        </div>
      </form>
    </Dialog>
  )
}
