import type { ChannelTested } from '@wardline/contract'
import { useState } from 'react'
import type { Channel } from '../service/alerts.ts'
import { call } from '../service/client.ts'
import { OperatorButton, OutcomeText } from './action-parts.tsx'
import { Received } from './received.tsx'
import { ReceiverSaid } from './receiver-said.tsx'
import { useAction } from './use-action.ts'

/** Sends a real message and shows the receiver's actual response. */
export function SendTest({ channel, onEdit }: { channel: Channel; onEdit?: () => void }) {
  const [tested, setTested] = useState<ChannelTested>()
  const { isBusy, outcome, run } = useAction('channels')
  const send = () => {
    setTested(undefined)
    void run(async () => {
      const answer = await call('testChannel', { params: { id: channel.id } })
      setTested(answer)
      const took = `${answer.duration_ms.toLocaleString('en')} ms`
      return answer.ok ? `The receiver took it after ${took}.` : `Not delivered, after ${took}.`
    })
  }
  return (
    <div className="chips tested">
      <OperatorButton disabled={isBusy} onClick={send}>
        {isBusy ? 'Sending…' : 'Send test'}
      </OperatorButton>
      {onEdit && <OperatorButton onClick={onEdit}>Edit…</OperatorButton>}
      <OutcomeText outcome={outcome} />
      {tested && (
        <>
          <ReceiverSaid {...tested} />
          <Received id={tested.message_id} />
        </>
      )}
    </div>
  )
}
