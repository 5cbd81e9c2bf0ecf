import type { ChannelTested } from '@wardline/contract'
import { useState } from 'react'
import type { Channel } from '../data/alerts.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault } from '../ui/panel.tsx'
import { stateOfChannel } from './alert-texts.ts'
import css from './alerts.module.css'
import { Received, Response } from './message.tsx'

const marks: Record<ReturnType<typeof stateOfChannel>, { shape: string; look: string }> = {
  working: { shape: '●', look: 'ok' },
  untested: { shape: '○', look: 'warning' },
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

/** Sends a real message to a channel at a time, and keeps the receiver's actual response. */
export function useTest() {
  const [channelId, setChannelId] = useState<string>()
  const [result, setResult] = useState<ChannelTested>()
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.channels] })
  const send = (id: string) => {
    setChannelId(id)
    setResult(undefined)
    void run(async () => {
      const tested = await call('testChannel', { params: { id } })
      setResult(tested)
      return tested.ok ? `Test delivered in ${tested.duration_ms.toLocaleString('en')} ms.` : undefined
    })
  }
  return { channelId, result, isBusy, fault, send }
}

interface TestProps {
  channel: Channel
  test: ReturnType<typeof useTest>
}

export function TestButton({ channel, test }: TestProps) {
  return (
    <OperatorButton
      about={<HostileText text={channel.name} max={80} />}
      disabled={test.isBusy}
      onClick={() => test.send(channel.id)}
    >
      {test.isBusy && test.channelId === channel.id ? 'Sending…' : 'Send test'}
    </OperatorButton>
  )
}

/** The response to the test of a channel; null without one. */
export function testResult({ channel, test: { channelId, result, fault } }: TestProps) {
  if (channelId !== channel.id || (!result && !fault)) return null
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
