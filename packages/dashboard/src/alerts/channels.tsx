import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { Channel } from '../data/alerts.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { DataTable } from '../ui/table.tsx'
import { useNow } from '../ui/time.tsx'
import { healthText, stateOfChannel } from './alert-texts.ts'
import { ChannelState, LastError, TestButton, testResult, useTest } from './channel-parts.tsx'
import type { AlertSearch } from './search.ts'

const ChannelDrawer = lazyDialog(async () => (await import('./channel-dialogs.tsx')).ChannelDrawer)
const ChannelForm = lazyDialog(async () => (await import('./channel-dialogs.tsx')).ChannelForm)

interface ChannelsProps {
  search: AlertSearch
  channels: readonly Channel[] | undefined
  onShow(change: Partial<AlertSearch>): void
}

const noChannels = (
  <>
    No channels yet. A channel sends alerts to a chat, a pager, e-mail, or your own program by webhook. Until there is
    one, alerts are only in the queue, and nobody is notified. A new channel receives alerts from then on. Settings are
    saved encrypted and never shown again. Environment variables such as <code>SLACK_WEBHOOK_URL</code> also add
    channels, as does <code>wardline channels add slack --name Ops</code>.
  </>
)

export function Channels({ search, channels, onShow }: ChannelsProps) {
  const now = useNow()
  const test = useTest()
  const [form, setForm] = useState<{ channel?: Channel }>()
  const opened = channels?.find(({ id }) => id === search.channel)
  return (
    <>
      <DataTable
        label="Alert channels"
        title="Channels"
        note="oldest first"
        end={
          <OperatorButton kind="go" onClick={() => setForm({})}>
            Add channel…
          </OperatorButton>
        }
        rows={channels}
        rowKey={({ id }) => id}
        empty={noChannels}
        columns={[
          {
            name: 'Channel',
            cell: ({ id, name, type }) => (
              <>
                <Link to="/alerts" search={{ view: 'channels', channel: id }}>
                  <HostileText text={name} max={80} />
                </Link>
                <div className="quiet">{type}</div>
              </>
            ),
          },
          { name: 'State', kind: 'word', cell: (channel) => <ChannelState channel={channel} /> },
          {
            name: 'Destination',
            cell: ({ destination, min_severity }) => (
              <>
                <HostileText text={destination} max={100} />
                <div className="quiet">{min_severity} and above</div>
              </>
            ),
          },
          {
            name: 'Deliveries',
            cell: (channel) => (
              <>
                {healthText(channel, now)}
                {stateOfChannel(channel) === 'failing' && <LastError channel={channel} />}
              </>
            ),
          },
        ]}
        actions={(channel) => (
          <>
            <TestButton channel={channel} test={test} />
            <OperatorButton about={<HostileText text={channel.name} max={80} />} onClick={() => setForm({ channel })}>
              Edit…
            </OperatorButton>
          </>
        )}
        below={(channel) => testResult({ channel, test })}
      />
      {form && (
        <ChannelForm
          {...form}
          onClose={() => setForm(undefined)}
          onDone={(id) => {
            setForm(undefined)
            onShow({ channel: id })
          }}
        />
      )}
      {opened && !form && (
        <ChannelDrawer
          key={opened.id}
          channel={opened}
          onEdit={() => setForm({ channel: opened })}
          onClose={() => onShow({ channel: undefined })}
        />
      )}
    </>
  )
}
