import { useQueryClient } from '@tanstack/react-query'
import { type BodyOf, type KeyCreated, type KeyView, limits, type Scope, scopes } from '@wardline/contract'
import { type FormEvent, useEffect, useRef, useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { Snippet } from '../parts/snippet.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { keysKey } from '../service/keys.ts'

const hourSeconds = 3_600
const daySeconds = 24 * hourSeconds

const grants: Record<Scope, string> = {
  agent: 'sends heartbeats and events for its agents, asks about decoys; reads nothing',
  viewer: 'reads everything, changes nothing',
  operator: 'reads, suspends and resumes agents, plants decoys, handles alerts',
  admin: 'everything, keys included',
}

const lives: [name: string, days: number | undefined][] = [
  ['until it is revoked', undefined],
  ['1 day', 1],
  ['30 days', 30],
  ['90 days', 90],
  ['1 year', 365],
]

/** Shows a key once. Only the component that requested it has the key, and loses it when it closes. */
function ShownKey({ created, onClose }: { created: KeyCreated; onClose(): void }) {
  const closing = useRef<HTMLButtonElement>(null)
  useEffect(() => closing.current?.focus(), [])
  return (
    <>
      <p className="notice">
        The key is shown only here. The service keeps a hash of it: once this is closed, nobody can show it again.
      </p>
      <Snippet label={`Key of scope ${created.scope}`} text={created.key} />
      <div className="foot">
        <button ref={closing} type="button" onClick={onClose}>
          Close and forget the key <kbd>Esc</kbd>
        </button>
      </div>
    </>
  )
}

/** Runs one request that changes keys. The response stays in the dialog's state. */
function useChange<Answer>() {
  const client = useQueryClient()
  const [answer, setAnswer] = useState<Answer>()
  const [fault, setFault] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  async function run(request: () => Promise<Answer>): Promise<void> {
    setBusy(true)
    setFault(undefined)
    try {
      setAnswer(await request())
      await client.invalidateQueries({ queryKey: keysKey })
    } catch (problem) {
      setFault(sentenceOf(problem))
    }
    setBusy(false)
  }
  return { answer, fault, isBusy, run }
}

function Foot({ action, isBusy, isGrave = false, onClose }: FootProps) {
  return (
    <div className="foot">
      <button type="button" onClick={onClose}>
        Cancel <kbd>Esc</kbd>
      </button>
      <button type="submit" className={isGrave ? 'act' : 'go'} disabled={isBusy}>
        {action}
      </button>
    </div>
  )
}

interface FootProps {
  action: string
  isBusy: boolean
  isGrave?: boolean
  onClose(): void
}

export function CreateKeyDialog({ onClose }: { onClose(): void }) {
  const { answer, fault, isBusy, run } = useChange<KeyCreated>()
  const [scope, setScope] = useState<Scope>('agent')

  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const name = String(form.get('name')).trim()
    const days = lives[Number(form.get('life'))]?.[1]
    const instances = String(form.get('instances') ?? '').split(/[\s,]+/)
    const body: BodyOf<'createKey'> = {
      scope,
      ...(name === '' ? {} : { name }),
      ...(scope === 'agent' ? { instances: instances.filter((id) => id !== '') } : {}),
      ...(days === undefined ? {} : { expires_at: new Date(Date.now() + days * daySeconds * 1_000).toISOString() }),
    }
    void run(() => call('createKey', { body }))
  }
  return (
    <Dialog label="Create a key" onClose={onClose} closesOutside={answer === undefined}>
      <form onSubmit={submit} className="fields">
        <h2>{answer ? 'The key' : 'Create a key'}</h2>
        {answer ? (
          <ShownKey created={answer} onClose={onClose} />
        ) : (
          <>
            <label>
              Role
              <select
                data-first
                name="scope"
                value={scope}
                onChange={(event) => setScope(event.target.value as Scope)}
                aria-describedby="grants"
              >
                {scopes.map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            </label>
            <p id="grants" className="quiet">
              {grants[scope]}
            </p>
            {scope === 'agent' && (
              <label>
                Agents: ids, or prefixes that end in *, separated by commas
                <input
                  name="instances"
                  required
                  autoComplete="off"
                  spellCheck={false}
                  maxLength={7_000}
                  className="mono"
                />
              </label>
            )}
            <label>
              Name: who holds it{scope === 'agent' ? '; default: its agents' : ''}
              <input name="name" required={scope !== 'agent'} maxLength={limits.keyName} autoComplete="off" />
            </label>
            <label>
              Valid
              <select name="life">
                {lives.map(([name], index) => (
                  <option key={name} value={index}>
                    {name}
                  </option>
                ))}
              </select>
            </label>
            <p role="alert" className="fault">
              {fault}
            </p>
            <Foot action="Create the key" isBusy={isBusy} onClose={onClose} />
          </>
        )}
      </form>
    </Dialog>
  )
}

interface KeyDialogProps {
  entry: KeyView
  isOwn: boolean
  onClose(): void
}

const overlaps: [name: string, seconds: number][] = [
  ['at once', 0],
  ['in 1 hour', hourSeconds],
  ['in 1 day', daySeconds],
  ['in 7 days', 7 * daySeconds],
]
const usualOverlap = daySeconds

export function RotateDialog({ entry, isOwn, onClose }: KeyDialogProps) {
  const { answer, fault, isBusy, run } = useChange<KeyCreated>()
  // Ending one's own key at once would end this session before a person could read the new key.
  const offered = overlaps.filter(([, seconds]) => !isOwn || seconds > 0)
  return (
    <Dialog label="Rotate the key" onClose={onClose} closesOutside={answer === undefined}>
      <form
        className="fields"
        onSubmit={(event) => {
          event.preventDefault()
          const overlap_seconds = Number(new FormData(event.currentTarget).get('overlap'))
          void run(() => call('rotateKey', { params: { id: entry.id }, body: { overlap_seconds } }))
        }}
      >
        <h2>
          {answer ? 'The new key of ' : 'Rotate '}
          <HostileText text={entry.name} max={60} />
        </h2>
        {answer ? (
          <ShownKey created={answer} onClose={onClose} />
        ) : (
          <>
            <p>A new key with the same rights and agents takes its place. Both are valid until the old one ends.</p>
            {isOwn && (
              <p className="notice">
                This is your key: you are signed out when it ends. Store the new one before, and sign in with it.
              </p>
            )}
            <label>
              The old key ends
              <select name="overlap" data-first defaultValue={usualOverlap}>
                {offered.map(([name, seconds]) => (
                  <option key={name} value={seconds}>
                    {name}
                  </option>
                ))}
              </select>
            </label>
            <p role="alert" className="fault">
              {fault}
            </p>
            <Foot action="Rotate the key" isBusy={isBusy} onClose={onClose} />
          </>
        )}
      </form>
    </Dialog>
  )
}

export function RevokeDialog({ entry, isOwn, isLastAdmin, onClose }: KeyDialogProps & { isLastAdmin: boolean }) {
  const { answer, fault, isBusy, run } = useChange<object>()
  useEffect(() => {
    if (answer) onClose()
  })
  return (
    <Dialog label="Revoke the key" onClose={onClose}>
      <form
        className="fields"
        onSubmit={(event) => {
          event.preventDefault()
          void run(() => call('revokeKey', { params: { id: entry.id } }))
        }}
      >
        <h2>
          Revoke <HostileText text={entry.name} max={60} />?
        </h2>
        <p>
          Every process refuses it within one second; its streams and sessions end. A revoked key never becomes valid
          again.
          {entry.scope === 'agent' ? ' An agent that holds it loses contact, and kills no longer reach it.' : ''}
        </p>
        {isOwn && <p className="notice">This is your key: you are signed out at once.</p>}
        {isLastAdmin && (
          <p className="notice">
            It is the only valid admin key here. The next one can only be made on the machine of the service:{' '}
            <code>wardline keys create --local --scope admin --name …</code>
          </p>
        )}
        <p role="alert" className="fault">
          {fault}
        </p>
        <Foot action="Revoke the key" isBusy={isBusy} isGrave onClose={onClose} />
      </form>
    </Dialog>
  )
}
