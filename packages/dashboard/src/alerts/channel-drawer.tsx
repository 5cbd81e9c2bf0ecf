import { useQuery } from '@tanstack/react-query'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { Time, useNow } from '../parts/time.tsx'
import { type Channel, messagesQuery } from '../service/alerts.ts'
import { call, sentenceOf } from '../service/client.ts'
import { OperatorButton, OutcomeText } from './action-parts.tsx'
import { healthText, stateOfChannel } from './alert-texts.ts'
import { ChannelState } from './channel-state.tsx'
import { Received } from './received.tsx'
import { ReceiverSaid } from './receiver-said.tsx'
import { SendTest } from './send-test.tsx'
import { useAction } from './use-action.ts'

interface ChannelDrawerProps {
  channel: Channel
  onEdit(): void
  onClose(): void
}

/** One channel: its state, the messages sent to it, and its receiver's responses. */
export function ChannelDrawer({ channel, onEdit, onClose }: ChannelDrawerProps) {
  const now = useNow()
  const { isBusy, outcome, run } = useAction('channels')
  const [isDeleting, setDeleting] = useState(false)
  const { id, quiet_hours: quiet } = channel
  const replay = () =>
    void run(async () => {
      const { replayed } = await call('replayChannel', { params: { id } })
      return `${counted(replayed, 'message')} on ${replayed === 1 ? 'its' : 'their'} way again.`
    })
  const remove = () =>
    void run(async () => {
      await call('deleteChannel', { params: { id } })
      return 'The channel is deleted.'
    }).then(onClose)
  const facts: [name: string, value: string][] = [
    ['takes', `${channel.min_severity} and above, at most ${counted(channel.max_per_minute, 'message')} a minute`],
    [
      'quiet hours',
      quiet
        ? `${quiet.from} to ${quiet.to}, ${quiet.time_zone}; ${quiet.least ?? 'critical'} and above are sent at once`
        : 'none',
    ],
    ['when resolved', channel.send_resolved ? 'sends a message' : 'sends nothing'],
    ['daily check', channel.daily_check ? 'sent' : 'off'],
    ['set by', channel.managed_by === 'environment' ? 'the environment of the service' : 'API'],
  ]
  return (
    <Dialog label="Channel" onClose={onClose} className="drawer">
      <div className="chips">
        <button type="button" onClick={onClose}>
          Close <kbd>Esc</kbd>
        </button>
        <OperatorButton onClick={onEdit}>Edit…</OperatorButton>
        {channel.managed_by === 'api' &&
          (isDeleting ? (
            <OperatorButton className="danger" disabled={isBusy} onClick={remove}>
              Delete it, and {counted(channel.waiting, 'waiting message')}
            </OperatorButton>
          ) : (
            <OperatorButton onClick={() => setDeleting(true)}>Delete…</OperatorButton>
          ))}
        {channel.dead > 0 && (
          <OperatorButton disabled={isBusy} onClick={replay}>
            Send {counted(channel.dead, 'given up message')} again
          </OperatorButton>
        )}
      </div>
      <div className="alert-facts">
        <OutcomeText outcome={outcome} />
        <p>
          <ChannelState channel={channel} /> <span className="quiet">{channel.type}</span>
        </p>
        <h2>
          <HostileText text={channel.name} max={80} />
        </h2>
        <p>{healthText(channel, now)}.</p>
        {channel.last_error !== null && (
          <p className={stateOfChannel(channel) === 'failing' ? 'fault' : 'quiet'}>
            Last error
            {channel.last_error_at !== null && (
              <>
                {' '}
                at <Time at={channel.last_error_at} />
              </>
            )}
            : <HostileText text={channel.last_error} />
          </p>
        )}
        <SendTest channel={channel} />
        <table>
          <tbody>
            <tr>
              <th scope="row">sends to</th>
              <td className="mono">
                <HostileText text={channel.destination} />
              </td>
            </tr>
            {facts.map(([name, value]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>
                  <HostileText text={value} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        <Messages id={id} />
      </div>
    </Dialog>
  )
}

const stateWords = { pending: 'on its way', delivered: 'delivered', dead: 'given up' } as const

function Messages({ id }: { id: string }) {
  const now = useNow()
  const { data, error } = useQuery(messagesQuery(id))
  return (
    <section className="panel" aria-labelledby="messages">
      <header>
        <h3 id="messages">Messages</h3>
        <span className="quiet">the newest 50</span>
      </header>
      {error && <p className="empty fault">{sentenceOf(error)}</p>}
      {data?.length === 0 && <p className="empty">It was sent nothing yet.</p>}
      <ul>
        {data?.map((message) => (
          <li key={message.id} className="delivery">
            <p>
              <Time at={message.created_at} /> <HostileText text={message.title} max={200} />{' '}
              <span className={message.state === 'dead' ? 'critical' : 'quiet'}>
                {stateWords[message.state]}, {counted(message.attempts, 'attempt')}
                {message.due_at !== null && Date.parse(message.due_at) > now && (
                  <>
                    , next at <Time at={message.due_at} />
                  </>
                )}
              </span>
            </p>
            <ReceiverSaid status={message.last_status} answer={message.last_answer} error={message.last_error} />
            <Received id={message.id} />
          </li>
        ))}
      </ul>
    </section>
  )
}
