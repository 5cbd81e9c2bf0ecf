import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { contentQuery } from '../data/alerts.ts'
import { Button } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy-button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault } from '../ui/panel.tsx'
import { Time, useNow } from '../ui/time.tsx'
import { readableBody } from './alert-texts.ts'
import css from './alerts.module.css'

interface MessageLineProps {
  /** Absent while nothing is composed. */
  id: string | null
  of: { due_at: string | null; last_status: number | null; last_answer: string | null; last_error: string | null }
  children: ReactNode
}

/** One message to a channel: its state, the receiver's last response, and its content on request. */
export function MessageLine({ id, of, children }: MessageLineProps) {
  const { due_at, last_status, last_answer, last_error } = of
  const now = useNow()
  return (
    <li className={css.entry}>
      <p>
        {children}
        {due_at !== null && Date.parse(due_at) > now && (
          <>
            , next attempt at <Time at={due_at} />
          </>
        )}
      </p>
      <Response status={last_status} answer={last_answer} error={last_error} />
      {id !== null && <Received id={id} />}
    </li>
  )
}

/** The receiver's last response, verbatim. */
export function Response(response: { status: number | null; answer: string | null; error: string | null }) {
  const { status, answer, error } = response
  if (status === null && !answer && error === null) return null
  return (
    <p className="quiet">
      {error !== null && <HostileText text={error} />}
      {(status !== null || answer) && ' Response: '}
      {status !== null && <b>{status} </b>}
      {answer && (
        <q>
          <HostileText text={answer} />
        </q>
      )}
    </p>
  )
}

/** Shows a message as the channel received it, behind a button. */
export function Received({ id }: { id: string }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <Button aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        Message as received
      </Button>
      {isOpen && <Content id={id} />}
    </>
  )
}

function Content({ id }: { id: string }) {
  const { data, error } = useQuery(contentQuery(id))
  if (!data) return error ? <Fault of={error} /> : <p className="quiet">Loading message…</p>
  return (
    <>
      <p className="quiet">
        {data.content_type}. Rebuilt from the stored alert; differs from what was sent if the channel, the public URL or
        the version changed since. Secrets are hidden.{data.cut && ' Only the beginning is shown.'}
      </p>
      <pre className={`mono ${css.body}`} data-part="body">
        {readableBody(data).map((line, index) => (
          <div key={index}>{line === '' ? ' ' : <HostileText text={line} max={2_000} />}</div>
        ))}
      </pre>
      <CopyButton name="Copy message" text={data.body} />
    </>
  )
}
