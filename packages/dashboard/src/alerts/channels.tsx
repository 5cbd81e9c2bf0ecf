import { useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { Time, useNow } from '../parts/time.tsx'
import type { Channel } from '../service/alerts.ts'
import { OperatorButton } from './action-parts.tsx'
import { healthText, stateOfChannel } from './alert-texts.ts'
import { ChannelDrawer } from './channel-drawer.tsx'
import { ChannelForm } from './channel-form.tsx'
import { ChannelState } from './channel-state.tsx'
import type { AlertSearch } from './search.ts'
import { SendTest } from './send-test.tsx'

interface ChannelsProps {
  search: AlertSearch
  channels: readonly Channel[] | undefined
  onShow(change: Partial<AlertSearch>): void
}

export function Channels({ search, channels, onShow }: ChannelsProps) {
  const now = useNow()
  const [form, setForm] = useState<{ channel?: Channel }>()
  const opened = channels?.find(({ id }) => id === search.channel)
  return (
    <section className="panel" aria-labelledby="channels">
      <header>
        <h2 id="channels">Channels</h2>
        <span className="quiet">oldest first</span>
        <span className="end">
          <OperatorButton className="go" onClick={() => setForm({})}>
            Add a channel…
          </OperatorButton>
        </span>
      </header>
      {channels?.length === 0 && (
        <div className="empty teach">
          <p>
            No channel yet, so nothing becomes an alert. A channel is where alerts go: a chat, a pager, e-mail, or a
            program of yours by webhook. Have the URL or token of the receiver ready; it is stored encrypted and never
            shown again. Then send a test: its answer stands here.
          </p>
          <p>
            Channels can also be set by the environment, such as <code>SLACK_WEBHOOK_URL</code>, or in a terminal:{' '}
            <code>wardline channels add slack --name Ops</code>
          </p>
        </div>
      )}
      <ul>
        {channels?.map((channel) => (
          <li key={channel.id} className="channel-row">
            <ChannelState channel={channel} />
            <div>
              <button type="button" className="plain name" onClick={() => onShow({ channel: channel.id })}>
                <HostileText text={channel.name} max={80} />
              </button>{' '}
              <span className="quiet">
                {channel.type} to <HostileText text={channel.destination} max={100} />, {channel.min_severity} and above
              </span>
              <p className="quiet">{healthText(channel, now)}</p>
              {channel.last_error !== null && stateOfChannel(channel) === 'failing' && (
                <p className="fault">
                  <HostileText text={channel.last_error} />{' '}
                  {channel.last_error_at !== null && <Time at={channel.last_error_at} />}
                </p>
              )}
              <SendTest channel={channel} onEdit={() => setForm({ channel })} />
            </div>
          </li>
        ))}
      </ul>
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
    </section>
  )
}
