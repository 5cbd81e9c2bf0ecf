import { useQueryClient } from '@tanstack/react-query'
import type { Rotated } from '@wardline/contract'
import { limits } from '@wardline/contract'
import { type FormEvent, useEffect, useRef, useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { Snippet } from '../parts/snippet.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { type DecoyDetail, decoysKey } from '../service/decoys.ts'

interface ActionProps {
  decoy: DecoyDetail
  onClose(): void
}

/** Runs one change at a time, with its error. */
function useChange() {
  const client = useQueryClient()
  const [fault, setFault] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  async function change(work: () => Promise<unknown>): Promise<boolean> {
    setBusy(true)
    setFault(undefined)
    try {
      await work()
      await client.invalidateQueries({ queryKey: decoysKey })
      return true
    } catch (problem) {
      setFault(sentenceOf(problem))
      return false
    } finally {
      setBusy(false)
    }
  }
  return { change, fault, isBusy }
}

/** Replaces the value and shows the new one once. Only this component has it. */
export function RotateDialog({ decoy, onClose }: ActionProps) {
  const { change, fault, isBusy } = useChange()
  const [rotated, setRotated] = useState<Rotated>()
  const closing = useRef<HTMLButtonElement>(null)
  useEffect(() => {
    if (rotated) closing.current?.focus()
  }, [rotated])
  const rotate = () => change(async () => setRotated(await call('rotateDecoy', { params: { id: decoy.id } })))
  return (
    <Dialog label="Rotate the decoy" onClose={onClose} closesOutside={rotated === undefined}>
      <h2>{rotated ? 'The new key' : 'Replace the value of this decoy?'}</h2>
      {rotated ? (
        <>
          <p className="notice">
            The key is shown only here. Write it where the old one is, then note where; the old one still matches.
          </p>
          <Snippet label="The new key" text={rotated.key} />
        </>
      ) : (
        <p>
          The old value is retired: it still matches, and its hits count for this decoy. The new one is a decoy beside
          it, for the same agent.
        </p>
      )}
      <p role="alert" className="fault">
        {fault}
      </p>
      <div className="foot">
        <button ref={closing} type="button" data-first onClick={onClose}>
          {rotated ? 'Close and forget the key' : 'Cancel'} <kbd>Esc</kbd>
        </button>
        {!rotated && (
          <button type="button" className="go" disabled={isBusy} onClick={() => void rotate()}>
            Rotate
          </button>
        )}
      </div>
    </Dialog>
  )
}

export function TestDialog({ decoy, onClose }: ActionProps) {
  const { change, fault, isBusy } = useChange()
  async function send() {
    if (await change(() => call('testDecoy', { params: { id: decoy.id } }))) onClose()
  }
  return (
    <Dialog label="Test the decoy" onClose={onClose}>
      <h2>Record a test hit?</h2>
      <p>
        The event and its alert are as for a real hit and say that they are a test. Nobody is suspended, and the hit is
        not counted; the risk score counts the breach.
      </p>
      <p role="alert" className="fault">
        {fault}
      </p>
      <div className="foot">
        <button type="button" data-first onClick={onClose}>
          Cancel <kbd>Esc</kbd>
        </button>
        <button type="button" className="go" disabled={isBusy} onClick={() => void send()}>
          Record a test hit
        </button>
      </div>
    </Dialog>
  )
}

export function PlantedDialog({ decoy, onClose }: ActionProps) {
  const { change, fault, isBusy } = useChange()
  const [note, setNote] = useState(decoy.planted?.note ?? '')
  const [file, setFile] = useState(decoy.planted?.file ?? '')
  async function submit(event: FormEvent) {
    event.preventDefault()
    const body = { note: note.trim(), ...(file.trim() === '' ? {} : { file: file.trim() }) }
    if (await change(() => call('noteDecoyPlanted', { params: { id: decoy.id }, body }))) onClose()
  }
  return (
    <Dialog label="Note where it is planted" onClose={onClose}>
      <form onSubmit={submit} className="fields">
        <h2>Where is it planted?</h2>
        <label>
          Where, never the decoy itself
          <input
            data-first
            required
            maxLength={limits.reason}
            value={note}
            onChange={(at) => setNote(at.target.value)}
          />
        </label>
        <label>
          The file that holds it, for secret scanners (optional)
          <input
            className="mono"
            maxLength={limits.decoyPath}
            autoComplete="off"
            spellCheck={false}
            value={file}
            onChange={(at) => setFile(at.target.value)}
          />
        </label>
        <p role="alert" className="fault">
          {fault}
        </p>
        <div className="foot">
          <button type="button" onClick={onClose}>
            Cancel <kbd>Esc</kbd>
          </button>
          <button type="submit" className="go" disabled={isBusy}>
            Note it
          </button>
        </div>
      </form>
    </Dialog>
  )
}
