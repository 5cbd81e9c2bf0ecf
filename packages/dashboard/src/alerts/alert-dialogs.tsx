import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type AlertChange, eventTypes, titleOf } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { type ReactNode, useState } from 'react'
import { type Alert, type AlertDetail, alertQuery, type Channel } from '../data/alerts.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useMayOperate } from '../data/session.ts'
import { originFacts, ReportHead } from '../parts/report.tsx'
import { FiredRules } from '../parts/rule-matches.tsx'
import { Button } from '../ui/button.tsx'
import { Drawer, stepsOf } from '../ui/dialog.tsx'
import { Check } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState, Fault, Panel } from '../ui/panel.tsx'
import { Facts } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { AlertActions, acknowledge } from './alert-actions.tsx'
import { changeText, deliveryText, stateText } from './alert-texts.ts'
import css from './alerts.module.css'
import { Assignment } from './assignment.tsx'
import { MessageLine } from './channel-parts.tsx'
import { Comments } from './comments.tsx'
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
  const ids = rows.map((row) => row.id)
  return (
    <Drawer
      label="Alert"
      steps={stepsOf(ids, id, onOpen)}
      keys={{ a: () => alert?.status === 'open' && change(acknowledge.body, acknowledge.done) }}
      onClose={onClose}
    >
      {!alert && (error ? <Fault of={error} /> : <p>Loading alert…</p>)}
      {alert && (
        <>
          <ReportHead report={alert} title={titleOf(alert)} state={stateText(alert)} />
          <div className="chips" role="group" aria-label="Actions">
            <AlertActions alerts={[alert]} isBusy={isBusy} onChange={(_, { body, done }) => change(body, done)} />
          </div>
          {alert.status !== 'resolved' && (
            <Check
              label="Apply to all unresolved alerts of this type and agent"
              checked={wholeGroup}
              onChange={() => setWholeGroup(!wholeGroup)}
            />
          )}
          <Fault of={fault} />
          {alert.event_seq !== null && alert.event_type === eventTypes.ruleMatched && (
            <FiredRules seq={alert.event_seq} />
          )}
          <AlertFacts alert={alert} onSame={onSame} />
          <Comments alert={alert} />
          <Assignment alert={alert} isBusy={isBusy} onChange={change} />
          <Deliveries alert={alert} channels={channels} />
          <History alert={alert} />
        </>
      )}
    </Drawer>
  )
}

function AlertFacts({ alert, onSame }: { alert: AlertDetail } & Pick<AlertDrawerProps, 'onSame'>) {
  const { id, event_seq, event_type } = alert
  const agent = alert.instance_id ?? undefined
  return (
    <Facts
      facts={[
        [
          'Event',
          event_seq === null ? (
            'none: created without an event'
          ) : (
            <Link to="/events" search={{ ...(agent === undefined ? {} : { instance_id: agent }), open: event_seq }}>
              <span className="mono">{event_type}</span>, number {event_seq.toLocaleString('en')}
            </Link>
          ),
        ],
        [
          'Similar',
          <Button key="similar" onClick={() => onSame({ event_type, instance_id: agent })}>
            Alerts of this type{agent !== undefined && ' and agent'}
          </Button>,
        ],
        ...originFacts(alert),
        ['Id', id, true],
      ]}
    />
  )
}

function Deliveries({ alert, channels = [] }: Pick<AlertDrawerProps, 'channels'> & { alert: AlertDetail }) {
  const known = new Map(channels.map((channel) => [channel.id, channel]))
  return (
    <Panel title="Deliveries" level={3}>
      {alert.deliveries.length === 0 && (
        <EmptyState>
          {channels.length === 0
            ? 'No message: no channel is set up.'
            : 'No message: delivery is pending, or no channel accepts this alert.'}
        </EmptyState>
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
        {history.map(({ before, after, ...change }) => (
          <Entry key={change.at} at={change.at}>
            <HostileText text={change.by} max={60} /> {changeText({ before, after, ...change })}
            {after.assignee !== null && after.assignee !== before.assignee && (
              <>
                {' · Assignee: '}
                <HostileText text={after.assignee} />
              </>
            )}
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
