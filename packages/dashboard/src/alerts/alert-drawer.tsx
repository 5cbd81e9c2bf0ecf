import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { AlertChange } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { type FormEvent, useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { SeverityMark } from '../parts/marks.tsx'
import { Time, useNow } from '../parts/time.tsx'
import { type Alert, type AlertDetail, alertQuery, type Channel } from '../service/alerts.ts'
import { call, sentenceOf } from '../service/client.ts'
import { sessionQuery, useMayOperate } from '../service/session.ts'
import { OperatorButton, OutcomeText } from './action-parts.tsx'
import { changeText, deliveryText, headlineOf, stateText } from './alert-texts.ts'
import { Received } from './received.tsx'
import { ReceiverSaid } from './receiver-said.tsx'
import type { AlertSearch } from './search.ts'
import { useAction } from './use-action.ts'

interface AlertDrawerProps {
  id: string
  rows: readonly Alert[]
  channels: readonly Channel[] | undefined
  onOpen(id: string): void
  /** Filters the queue by the type and agent of this alert. */
  onSame(same: Pick<AlertSearch, 'event_type' | 'instance_id'>): void
  onClose(): void
}

/** One alert. `j` and `k` go to the next and previous one, `a` acknowledges, Escape closes. */
export function AlertDrawer({ id, rows, channels, onOpen, onSame, onClose }: AlertDrawerProps) {
  const { data: alert, error } = useQuery(alertQuery(id))
  const mayOperate = useMayOperate()
  const { isBusy, outcome, run } = useAction('alerts')
  const [wholeGroup, setWholeGroup] = useState(false)
  const index = rows.findIndex((row) => row.id === id)
  const step = (by: number) => {
    const next = rows[index + by]?.id
    if (index >= 0 && next !== undefined) onOpen(next)
  }
  const change = (body: AlertChange, done: string) => {
    if (isBusy || !mayOperate) return
    void run(async () => {
      const { changed } = await call('changeAlert', {
        params: { id },
        body: wholeGroup ? { ...body, whole_group: true } : body,
      })
      return changed === 1 ? `${done}.` : `${done}: ${counted(changed, 'alert')}.`
    })
  }
  return (
    <Dialog label="Alert" onClose={onClose} className="drawer">
      {/* biome-ignore lint/a11y/noStaticElementInteractions: keys of the dialog */}
      <div
        onKeyDown={({ key, target }) => {
          if (target instanceof HTMLInputElement && target.type !== 'checkbox') return
          if (key === 'j') step(1)
          if (key === 'k') step(-1)
          if (key === 'a' && alert?.status === 'open') change({ status: 'acknowledged' }, 'Acknowledged')
        }}
      >
        <div className="chips">
          <button type="button" onClick={onClose}>
            Close <kbd>Esc</kbd>
          </button>
          <button type="button" disabled={index < 0 || !rows[index + 1]} onClick={() => step(1)}>
            Older <kbd>j</kbd>
          </button>
          <button type="button" disabled={index < 1} onClick={() => step(-1)}>
            Newer <kbd>k</kbd>
          </button>
        </div>
        {!alert && (
          <p className={`alert-facts ${error ? 'fault' : ''}`} role={error ? 'alert' : undefined}>
            {error ? sentenceOf(error) : 'Reading the alert…'}
          </p>
        )}
        {alert && (
          <div className="alert-facts">
            <Headline alert={alert} />
            <div className="chips" role="group" aria-label="What to do">
              {alert.status === 'open' && (
                <OperatorButton
                  className="go"
                  disabled={isBusy}
                  onClick={() => change({ status: 'acknowledged' }, 'Acknowledged')}
                >
                  Acknowledge <kbd>a</kbd>
                </OperatorButton>
              )}
              {alert.status !== 'resolved' && (
                <>
                  <OperatorButton disabled={isBusy} onClick={() => change({ status: 'resolved' }, 'Resolved')}>
                    Resolve
                  </OperatorButton>
                  <OperatorButton
                    disabled={isBusy}
                    onClick={() =>
                      change({ status: 'resolved', verdict: 'false_positive' }, 'Resolved as a false positive')
                    }
                  >
                    False positive
                  </OperatorButton>
                </>
              )}
              {alert.status !== 'open' && (
                <OperatorButton disabled={isBusy} onClick={() => change({ status: 'open' }, 'Open again')}>
                  Reopen
                </OperatorButton>
              )}
            </div>
            {alert.status !== 'resolved' && (
              <label className="check">
                <input type="checkbox" checked={wholeGroup} onChange={() => setWholeGroup(!wholeGroup)} />
                Also every other unresolved alert of this type and agent
              </label>
            )}
            <OutcomeText outcome={outcome} />
            <Facts alert={alert} onSame={onSame} />
            <Deliveries alert={alert} channels={channels} />
            <People alert={alert} isBusy={isBusy} onChange={change} />
            <History alert={alert} />
          </div>
        )}
      </div>
    </Dialog>
  )
}

function Headline({ alert }: { alert: AlertDetail }) {
  return (
    <>
      <p>
        <SeverityMark severity={alert.severity} /> <Time at={alert.created_at} /> <b>{stateText(alert)}</b>
      </p>
      <h2>{headlineOf(alert)}</h2>
      <p>
        <HostileText text={alert.description} max={1_000} />
      </p>
      <p className="quiet">
        {alert.by_service ? 'Reported by the service itself.' : 'As a caller reported it: nobody checked it.'}
      </p>
    </>
  )
}

function Facts({ alert, onSame }: { alert: AlertDetail } & Pick<AlertDrawerProps, 'onSame'>) {
  const { instance_id, event_seq } = alert
  return (
    <table>
      <tbody>
        {instance_id !== null && (
          <tr>
            <th scope="row">agent</th>
            <td>
              <Link to="/fleet/$id" params={{ id: instance_id }}>
                {instance_id}
              </Link>
            </td>
          </tr>
        )}
        <tr>
          <th scope="row">event</th>
          <td>
            {event_seq === null ? (
              'none: the service reports it without an event'
            ) : (
              <Link to="/events" search={{ ...(instance_id === null ? {} : { instance_id }), open: event_seq }}>
                <span className="mono">{alert.event_type}</span>, number {event_seq.toLocaleString('en')}
              </Link>
            )}
          </td>
        </tr>
        <tr>
          <th scope="row">problem</th>
          <td>
            <button
              type="button"
              onClick={() => onSame({ event_type: alert.event_type, instance_id: instance_id ?? undefined })}
            >
              Only alerts of this type{instance_id !== null && ' and agent'}
            </button>
          </td>
        </tr>
        <tr>
          <th scope="row">source</th>
          <td className="mono">
            <HostileText text={alert.source} />
          </td>
        </tr>
        {alert.session_id !== null && (
          <tr>
            <th scope="row">session</th>
            <td className="mono">
              <HostileText text={alert.session_id} />
            </td>
          </tr>
        )}
        <tr>
          <th scope="row">id</th>
          <td className="mono">{alert.id}</td>
        </tr>
      </tbody>
    </table>
  )
}

interface PeopleProps {
  alert: AlertDetail
  isBusy: boolean
  onChange(body: AlertChange, done: string): void
}

function People({ alert, isBusy, onChange }: PeopleProps) {
  const { data: session } = useQuery(sessionQuery)
  const mayOperate = useMayOperate()
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const [assignee, note] = ['assignee', 'note'].map((name) => String(form.get(name)).trim() || null) as [
      string | null,
      string | null,
    ]
    onChange({ assignee, note }, 'Saved')
  }
  const isMine = session !== undefined && alert.assignee === session.name
  return (
    <section className="panel" aria-labelledby="people">
      <header>
        <h3 id="people">Who has it</h3>
        <span className="quiet">
          {alert.assignee === null ? 'no one' : <HostileText text={alert.assignee} max={100} />}
        </span>
        <span className="end">
          <OperatorButton
            disabled={isBusy || !session || isMine}
            onClick={() => session && onChange({ assignee: session.name.slice(0, 100) }, 'Assigned to you')}
          >
            Assign to me
          </OperatorButton>
        </span>
      </header>
      {/* Separate keys, so that text typed in one field is kept when the other changes. */}
      <form className="fields" onSubmit={submit}>
        <label className="field">
          Assignee
          <input
            key={alert.assignee}
            name="assignee"
            maxLength={100}
            defaultValue={alert.assignee ?? ''}
            disabled={!mayOperate}
          />
        </label>
        <label className="field">
          Note for others
          <input
            key={alert.note}
            name="note"
            maxLength={1_000}
            defaultValue={alert.note ?? ''}
            disabled={!mayOperate}
          />
        </label>
        <OperatorButton type="submit" disabled={isBusy}>
          Save
        </OperatorButton>
      </form>
    </section>
  )
}

function History({ alert }: { alert: AlertDetail }) {
  const { history, changed_at } = alert
  const isElsewhere = changed_at !== null && history[0]?.at !== changed_at
  return (
    <section className="panel" aria-labelledby="history">
      <header>
        <h3 id="history">What was done</h3>
        <span className="quiet">newest first</span>
      </header>
      <ul className="lines">
        {isElsewhere && (
          <li>
            <Time at={changed_at} /> Changed together with another alert of the same problem, or by the end of the
            problem
          </li>
        )}
        {history.map((change) => (
          <li key={change.at}>
            <Time at={change.at} /> <HostileText text={change.by} max={60} /> {changeText(change)}
            {change.after.assignee !== change.before.assignee && change.after.assignee !== null && (
              <>
                {' to '}
                <HostileText text={change.after.assignee} max={100} />
              </>
            )}
            {change.after.note !== change.before.note && change.after.note !== null && (
              <>
                {': '}
                <HostileText text={change.after.note} />
              </>
            )}
          </li>
        ))}
        <li>
          <Time at={alert.created_at} /> Raised
        </li>
      </ul>
    </section>
  )
}

function Deliveries({ alert, channels = [] }: { alert: AlertDetail; channels: readonly Channel[] | undefined }) {
  const now = useNow()
  const known = new Map(channels.map((channel) => [channel.id, channel]))
  return (
    <section className="panel" aria-labelledby="deliveries">
      <header>
        <h3 id="deliveries">Who was notified</h3>
      </header>
      {alert.deliveries.length === 0 && (
        <p className="empty">No channel has a message for it: it is not planned yet, or no route leads to one.</p>
      )}
      <ul>
        {alert.deliveries.map((delivery) => {
          const { channel_id, message_id, last_status, last_answer, last_error, due_at, delivered_at } = delivery
          const channel = known.get(channel_id)
          return (
            <li key={channel_id} className="delivery">
              <p>
                {channel ? (
                  <Link to="/alerts" search={{ view: 'channels', channel: channel_id }}>
                    <HostileText text={channel.name} max={80} />
                  </Link>
                ) : (
                  <span className="mono">{channel_id}</span>
                )}{' '}
                <span className="quiet">{channel?.type ?? 'a channel that is gone'}</span>{' '}
                <span className={delivery.state === 'dead' ? 'critical' : ''}>{deliveryText(delivery)}</span>
                {delivered_at !== null && (
                  <>
                    {' at '}
                    <Time at={delivered_at} />
                  </>
                )}
                {due_at !== null && Date.parse(due_at) > now && (
                  <>
                    {', next attempt at '}
                    <Time at={due_at} />
                  </>
                )}
              </p>
              <ReceiverSaid status={last_status} answer={last_answer} error={last_error} />
              {message_id !== null && <Received id={message_id} />}
            </li>
          )
        })}
      </ul>
    </section>
  )
}
