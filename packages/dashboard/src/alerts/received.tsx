import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { CopyButton } from '../parts/copy-button.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { contentQuery } from '../service/alerts.ts'
import { sentenceOf } from '../service/client.ts'
import { readableBody } from './readable-body.ts'

/** Shows a message as the channel received it, behind a button. */
export function Received({ id }: { id: string }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        Message as received
      </button>
      {isOpen && <Content id={id} />}
    </>
  )
}

function Content({ id }: { id: string }) {
  const { data, error } = useQuery(contentQuery(id))
  if (error)
    return (
      <p role="alert" className="fault">
        {sentenceOf(error)}
      </p>
    )
  if (!data) return <p className="quiet">Composing the message…</p>
  return (
    <>
      <p className="quiet">
        {data.content_type}, composed again by the code that sent it: as it was, unless the settings of the channel, the
        public URL or the version changed since. Its settings are hidden.
        {data.cut && ' Only the beginning is shown.'}
      </p>
      <pre className="mono received">
        {readableBody(data).map((line, index) => (
          <div key={index}>{line === '' ? ' ' : <HostileText text={line} max={2_000} />}</div>
        ))}
      </pre>
      <CopyButton name="Copy the message" text={data.body} />
    </>
  )
}
