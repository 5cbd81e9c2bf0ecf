import { useQuery } from '@tanstack/react-query'
import type { ChannelTested } from '@wardline/contract'
import { type ReactNode, useState } from 'react'
import { type Channel, contentQuery } from '../data/alerts.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { Button } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy-button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { TextLines } from '../ui/json-text.tsx'
import { Fault } from '../ui/panel.tsx'
import { Time, useNow } from '../ui/time.tsx'
import { readableBody, stateOfChannel } from './alert-texts.ts'
import css from './alerts.module.css'

const marks: Record<ReturnType<typeof stateOfChannel>, { shape: string; look: string }> = {
  working: { shape: '●', look: 'ok' },
  'not tried yet': { shape: '○', look: 'warning' },
  failing: { shape: '▲', look: 'critical' },
  disabled: { shape: '○', look: 'quiet' },
}

export function ChannelState({ channel }: { channel: Channel }) {
  const state = stateOfChannel(channel)
  const { shape, look } = marks[state]
  return (
    <b className={look}>
      <span aria-hidden="true">{shape}</span> {state}
    </b>
  )
}

export function LastError({ channel }: { channel: Channel }) {
  const { last_error, last_error_at } = channel
  if (last_error === null) return null
  return (
    <p className={stateOfChannel(channel) === 'failing' ? 'fault' : 'quiet'}>
      Last error {last_error_at !== null && <Time at={last_error_at} />}: <HostileText text={last_error} />
    </p>
  )
}

/** Sends a real message to a channel at a time, and keeps the receiver's actual response. */
export function useTest() {
  const [tested, setTested] = useState<{ id: string; result?: ChannelTested }>()
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.channels] })
  const send = (id: string) => {
    setTested({ id })
    void run(async () => {
      const result = await call('testChannel', { params: { id } })
      setTested({ id, result })
      return result.ok && `Test delivered in ${result.duration_ms.toLocaleString('en')} ms.`
    })
  }
  return { ...tested, isBusy, fault, send }
}

interface TestProps {
  channel: Channel
  test: ReturnType<typeof useTest>
}

export function TestButton({ channel: { id, name }, test }: TestProps) {
  return (
    <OperatorButton about={<HostileText text={name} max={80} />} disabled={test.isBusy} onClick={() => test.send(id)}>
      {test.isBusy && test.id === id ? 'Sending…' : 'Send test'}
    </OperatorButton>
  )
}

/** The response to the test of a channel; null without one. */
export function testResult({ channel, test: { id, result, fault } }: TestProps) {
  if (id !== channel.id || (!result && !fault)) return null
  return (
    <div className={css.entry} role="group" aria-label="Test result">
      <Fault of={fault} />
      {result && (
        <>
          {!result.ok && <Fault of={`Test failed after ${result.duration_ms.toLocaleString('en')} ms.`} />}
          <Response {...result} />
          <Received id={result.message_id} />
        </>
      )}
    </div>
  )
}

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
function Response({ status, answer, error }: Pick<ChannelTested, 'status' | 'answer' | 'error'>) {
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
function Received({ id }: { id: string }) {
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
        {data.content_type}. Rebuilt from the saved alert; differs from what was sent if the channel, the public URL or
        the version changed since. Secrets are hidden.{data.cut && ' Only the beginning is shown.'}
      </p>
      <TextLines lines={readableBody(data)} />
      <CopyButton name="Copy message" text={data.body} />
    </>
  )
}
