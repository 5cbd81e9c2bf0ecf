import { useQuery } from '@tanstack/react-query'
import { counted } from '@wardline/text/counted'
import { type Channel, messagesQuery } from '../data/alerts.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { ConfirmButton } from '../ui/button.tsx'
import { Drawer } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState, Fault, Panel } from '../ui/panel.tsx'
import { Facts } from '../ui/table.tsx'
import { Time, useNow } from '../ui/time.tsx'
import { healthText, stateOfChannel } from './alert-texts.ts'
import css from './alerts.module.css'
import { ChannelState, TestButton, testResult, useTest } from './channel-parts.tsx'
import { MessageLine } from './message.tsx'

interface ChannelDrawerProps {
  channel: Channel
  onEdit(): void
  onClose(): void
}

/** One channel: its state, the messages sent to it, and its receiver's responses. */
export function ChannelDrawer({ channel, onEdit, onClose }: ChannelDrawerProps) {
  const now = useNow()
  const test = useTest()
  const { id, quiet_hours: quiet } = channel
  return (
    <Drawer label="Channel" actions={<Actions channel={channel} onEdit={onEdit} onClose={onClose} />} onClose={onClose}>
      <p>
        <ChannelState channel={channel} /> <span className="quiet">{channel.type}</span>
      </p>
      <h2 className={css.subject}>
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
      <p>
        <TestButton channel={channel} test={test} />
      </p>
      {testResult({ channel, test })}
      <Facts
        facts={[
          ['destination', <HostileText key="destination" text={channel.destination} />, true],
          [
            'filter',
            `${channel.min_severity} and above, at most ${counted(channel.max_per_minute, 'message')} per minute`,
          ],
          [
            'quiet hours',
            quiet ? (
              <HostileText
                text={`${quiet.from} to ${quiet.to}, ${quiet.time_zone}; ${quiet.least ?? 'critical'} and above are sent immediately`}
              />
            ) : (
              'none'
            ),
          ],
          ['on resolve', channel.send_resolved ? 'sends a message' : 'sends nothing'],
          ['daily check', channel.daily_check ? 'on' : 'off'],
          ['managed by', channel.managed_by === 'environment' ? 'environment variables' : 'API'],
        ]}
      />
      <Messages id={id} />
    </Drawer>
  )
}

function Actions({ channel, onEdit, onClose }: ChannelDrawerProps) {
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.channels] })
  const { id, managed_by, waiting, dead } = channel
  const retry = async () => {
    const { replayed } = await call('replayChannel', { params: { id } })
    return `${counted(replayed, 'message')} queued again.`
  }
  const remove = async () => {
    await call('deleteChannel', { params: { id } })
    return 'Channel deleted.'
  }
  return (
    <>
      <OperatorButton onClick={onEdit}>Edit…</OperatorButton>
      {managed_by === 'api' && (
        <ConfirmButton
          as={OperatorButton}
          disabled={isBusy}
          sure={`Delete it${waiting > 0 ? `, with ${counted(waiting, 'pending message')}` : ''}`}
          onConfirm={() => void run(remove).then((isDone) => isDone && onClose())}
        >
          Delete…
        </ConfirmButton>
      )}
      {dead > 0 && (
        <OperatorButton disabled={isBusy} onClick={() => void run(retry)}>
          Retry {counted(dead, 'failed message')}
        </OperatorButton>
      )}
      <Fault of={fault} />
    </>
  )
}

const stateWords = { pending: 'pending', delivered: 'delivered', dead: 'failed' } as const

function Messages({ id }: { id: string }) {
  const { data, error } = useQuery(messagesQuery(id))
  return (
    <Panel title="Messages" level={3} note="newest 50">
      <Fault of={error} isInPanel />
      {data?.length === 0 && <EmptyState>No messages yet.</EmptyState>}
      <ul>
        {data?.map((message) => (
          <MessageLine key={message.id} id={message.id} of={message}>
            <Time at={message.created_at} /> <HostileText text={message.title} max={200} />{' '}
            <span className={message.state === 'dead' ? 'critical' : 'quiet'}>
              {stateWords[message.state]}, {counted(message.attempts, 'attempt')}
            </span>
          </MessageLine>
        ))}
      </ul>
    </Panel>
  )
}
