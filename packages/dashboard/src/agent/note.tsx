import { useState } from 'react'
import type { AgentDetail } from '../data/fleet.ts'
import { useMayOperate } from '../data/session.ts'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { Time } from '../ui/time.tsx'
import css from './agent.module.css'

const NoteDialog = lazyDialog(async () => (await import('./note-dialog.tsx')).NoteDialog)

/** What people should know about the agent, with a button to change it. */
export function NoteRow({ detail: { id, note } }: { detail: AgentDetail }) {
  const mayOperate = useMayOperate()
  const [isOpen, setOpen] = useState(false)
  if (note === null && !mayOperate) return null
  return (
    <section className={css.row} aria-label="Note">
      {note && (
        <>
          <div className={css.note}>
            <HostileText text={note.text} lines />
          </div>
          <span className="quiet">
            <HostileText text={note.author_name} max={60} /> <Time at={note.at} />
          </span>{' '}
        </>
      )}
      {mayOperate && (
        <Button kind="plain" onClick={() => setOpen(true)}>
          {note ? 'Edit note…' : 'Add note…'}
        </Button>
      )}
      {isOpen && <NoteDialog id={id} text={note?.text ?? ''} onClose={() => setOpen(false)} />}
    </section>
  )
}
