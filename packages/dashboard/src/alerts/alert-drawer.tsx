import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type AlertChange, titleOf } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { type ReactNode, useState } from 'react'
import { type Alert, type AlertDetail, alertQuery, type Channel } from '../data/alerts.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { sessionQuery, useMayOperate } from '../data/session.ts'
import { SeverityMark } from '../parts/marks.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { Button } from '../ui/button.tsx'
import { Drawer, stepsOf } from '../ui/dialog.tsx'
import { Check, TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState, Fault, Panel } from '../ui/panel.tsx'
import { Facts } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { changeText, deliveryText, stateText } from './alert-texts.ts'
import css from './alerts.module.css'
import { maxName } from './assign-dialog.tsx'
import { MessageLine } from './message.tsx'
import type { AlertSearch } from './search.ts'

interface AlertDrawerProps {
  id: string
  rows: readonly Alert[]
  channels: readonly Channel[] | undefined
  onOpen(id: string): void
  /** Filters the queue by the type and agent of this alert. */
  onSame(same: Pick<AlertSearch, 'event_type' | 'instance_id'>): void
  onClose(): void
}

interface ActionProps {
  alert: AlertDetail
  isBusy: boolean
  /** Changes the alert; `done` says what happened to it. */
  onChange(body: AlertChange, done: string): void
}

const acknowledged = [{ status: 'acknowledged' }, 'acknowledged'] as const

/** One alert. `a` acknowledges it. */
export function AlertDrawer({ id, rows, channels, onOpen, onSame, onClose }: AlertDrawerProps) {
  const { data: alert, error } = useQuery(alertQuery(id))
  const mayOperate = useMayOperate()
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.alerts] })
  const [wholeGroup, setWholeGroup] = useState(false)
  const change = (body: AlertChange, done: string) => {
    if (!mayOperate) return
    void run(async () => {
      const { changed } = await call('changeAlert', {
        params: { id },
        body: wholeGroup ? { ...body, whole_group: true } : body,
      })
      return `${counted(changed, 'alert')} ${done}.`
    })
  }
  const steps = stepsOf(
    rows.map((row) => row.id),
    id,
    onOpen,
  )
  return (
    <Drawer
      label="Alert"
      steps={steps}
      keys={{ a: () => alert?.status === 'open' && change(...acknowledged) }}
      onClose={onClose}
    >
      {!alert && (error ? <Fault of={error} /> : <p>Loading alert…</p>)}
      {alert && (
        <>
          <p>
            <SeverityMark severity={alert.severity} /> <Time at={alert.created_at} /> <b>{stateText(alert)}</b>
          </p>
          <h2 className={css.subject}>{titleOf(alert)}</h2>
          <p>
            <HostileText text={alert.description} max={1_000} />
          </p>
          <p className="quiet">{alert.by_service ? 'Reported by Wardline.' : 'Reported by a client; not verified.'}</p>
          <Actions alert={alert} isBusy={isBusy} onChange={change} />
          {alert.status !== 'resolved' && (
            <Check
              label="Apply to all unresolved alerts of this type and agent"
              checked={wholeGroup}
              onChange={() => setWholeGroup(!wholeGroup)}
            />
          )}
          <Fault of={fault} />
          <AlertFacts alert={alert} onSame={onSame} />
          <Deliveries alert={alert} channels={channels} />
          <Assignment alert={alert} isBusy={isBusy} onChange={change} />
          <History alert={alert} />
        </>
      )}
    </Drawer>
  )
}

function Actions({ alert, isBusy, onChange }: ActionProps) {
  return (
    <div className="chips" role="group" aria-label="Actions">
      {alert.status === 'open' && (
        <OperatorButton kind="go" shortcut="a" disabled={isBusy} onClick={() => onChange(...acknowledged)}>
          Acknowledge
        </OperatorButton>
      )}
      {alert.status !== 'resolved' && (
        <>
          <OperatorButton disabled={isBusy} onClick={() => onChange({ status: 'resolved' }, 'resolved')}>
            Resolve
          </OperatorButton>
          <OperatorButton
            disabled={isBusy}
            onClick={() => onChange({ status: 'resolved', verdict: 'false_positive' }, 'resolved as a false positive')}
          >
            False positive
          </OperatorButton>
        </>
      )}
      {alert.status !== 'open' && (
        <OperatorButton disabled={isBusy} onClick={() => onChange({ status: 'open' }, 'reopened')}>
          Reopen
        </OperatorButton>
      )}
    </div>
  )
}

function AlertFacts({ alert, onSame }: { alert: AlertDetail } & Pick<AlertDrawerProps, 'onSame'>) {
  const { id, instance_id, event_seq, event_type, session_id, source } = alert
  const agent = instance_id ?? undefined
  return (
    <Facts
      facts={[
        [
          'agent',
          instance_id !== null && (
            <Link to="/fleet/$id" params={{ id: instance_id }}>
              {instance_id}
            </Link>
          ),
        ],
        [
          'event',
          event_seq === null ? (
            'none: created without an event'
          ) : (
            <Link to="/events" search={{ ...(agent === undefined ? {} : { instance_id: agent }), open: event_seq }}>
              <span className="mono">{event_type}</span>, number {event_seq.toLocaleString('en')}
            </Link>
          ),
        ],
        [
          'similar',
          <Button key="similar" onClick={() => onSame({ event_type, instance_id: agent })}>
            Alerts of this type{agent !== undefined && ' and agent'}
          </Button>,
        ],
        ['source', <HostileText key="source" text={source} />, true],
        ['session', session_id !== null && <HostileText text={session_id} />, true],
        ['id', id, true],
      ]}
    />
  )
}

function Deliveries({ alert, channels = [] }: Pick<AlertDrawerProps, 'channels'> & { alert: AlertDetail }) {
  const known = new Map(channels.map((channel) => [channel.id, channel]))
  return (
    <Panel title="Deliveries" level={3}>
      {alert.deliveries.length === 0 && (
        <EmptyState>No message yet: delivery is pending, or no route matches.</EmptyState>
      )}
      <ul>
        {alert.deliveries.map((delivery) => {
          const { channel_id, message_id, delivered_at, state } = delivery
          const channel = known.get(channel_id)
          return (
            <MessageLine key={channel_id} id={message_id} of={delivery}>
              {channel ? (
                <Link to="/alerts" search={{ view: 'channels', channel: channel_id }}>
                  <HostileText text={channel.name} max={80} />
                </Link>
              ) : (
                <span className="mono">{channel_id}</span>
              )}{' '}
              <span className="quiet">{channel?.type ?? 'deleted channel'}</span>{' '}
              <span className={state === 'dead' ? 'critical' : ''}>{deliveryText(delivery)}</span>
              {delivered_at !== null && (
                <>
                  {' at '}
                  <Time at={delivered_at} />
                </>
              )}
            </MessageLine>
          )
        })}
      </ul>
    </Panel>
  )
}

function Assignment({ alert, isBusy, onChange }: ActionProps) {
  const { data: session } = useQuery(sessionQuery)
  const mayOperate = useMayOperate()
  const { assignee, note } = alert
  return (
    <Panel
      title="Assignee"
      level={3}
      note={assignee === null ? 'none' : <HostileText text={assignee} max={100} />}
      end={
        <OperatorButton
          disabled={isBusy || !session || assignee === session.name}
          onClick={() => session && onChange({ assignee: session.name.slice(0, maxName) }, 'assigned to you')}
        >
          Assign to me
        </OperatorButton>
      }
    >
      {/* Separate keys, so that text typed in one field is kept when the other changes. */}
      <form
        className={css.form}
        onSubmit={(event) => {
          event.preventDefault()
          const form = new FormData(event.currentTarget)
          const text = (name: string) => String(form.get(name)).trim() || null
          onChange({ assignee: text('assignee'), note: text('note') }, 'saved')
        }}
      >
        <TextField
          key={`assignee ${assignee}`}
          label="Assignee"
          name="assignee"
          maxLength={maxName}
          defaultValue={assignee ?? ''}
          disabled={!mayOperate}
        />
        <TextField
          key={`note ${note}`}
          label="Note"
          name="note"
          maxLength={1_000}
          defaultValue={note ?? ''}
          disabled={!mayOperate}
        />
        <OperatorButton isSubmit disabled={isBusy}>
          Save
        </OperatorButton>
      </form>
    </Panel>
  )
}

function History({ alert: { history, changed_at, created_at } }: { alert: AlertDetail }) {
  const isElsewhere = changed_at !== null && history[0]?.at !== changed_at
  return (
    <Panel title="History" level={3} note="newest first">
      <ul>
        {isElsewhere && (
          <Entry at={changed_at}>
            Changed with another alert of the same type and agent, or resolved automatically
          </Entry>
        )}
        {history.map((change) => (
          <Entry key={change.at} at={change.at}>
            <HostileText text={change.by} max={60} /> {changeText(change)}
            <Written name="Assignee" before={change.before.assignee} after={change.after.assignee} />
            <Written name="Note" before={change.before.note} after={change.after.note} />
          </Entry>
        ))}
        <Entry at={created_at}>Created</Entry>
      </ul>
    </Panel>
  )
}

function Entry({ at, children }: { at: string; children: ReactNode }) {
  return (
    <li className={css.entry}>
      <p>
        <Time at={at} /> {children}
      </p>
    </li>
  )
}

/** A changed text of a person. */
function Written({ name, before, after }: { name: string; before: string | null; after: string | null }) {
  return (
    after !== before &&
    after !== null && (
      <>
        {` · ${name}: `}
        <HostileText text={after} />
      </>
    )
  )
}
