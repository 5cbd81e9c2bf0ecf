import { useQuery } from '@tanstack/react-query'
import { counted } from '@wardline/text/counted'
import { type FormEvent, useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { sessionQuery } from '../service/session.ts'

const maxName = 100

interface AssignDialogProps {
  count: number
  onAssign(name: string | null): void
  onClose(): void
}

export function AssignDialog({ count, onAssign, onClose }: AssignDialogProps) {
  const { data: session } = useQuery(sessionQuery)
  const [name, setName] = useState('')
  const assign = (to: string | null) => {
    onAssign(to)
    onClose()
  }
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (name.trim() !== '') assign(name.trim())
  }
  return (
    <Dialog label={`Assign ${counted(count, 'alert')}`} onClose={onClose}>
      <form onSubmit={submit}>
        <h2>Assign {counted(count, 'alert')}</h2>
        <label className="field">
          Name
          <input data-first value={name} maxLength={maxName} onChange={(event) => setName(event.target.value)} />
        </label>
        <div className="foot">
          <button type="button" onClick={onClose}>
            Cancel <kbd>Esc</kbd>
          </button>
          <button type="button" onClick={() => assign(null)}>
            No one
          </button>
          {session && (
            <button type="button" onClick={() => assign(session.name.slice(0, maxName))}>
              <span>
                Me (<HostileText text={session.name} max={40} />)
              </span>
            </button>
          )}
          <button type="submit" className="go" disabled={name.trim() === ''}>
            Assign
          </button>
        </div>
      </form>
    </Dialog>
  )
}
