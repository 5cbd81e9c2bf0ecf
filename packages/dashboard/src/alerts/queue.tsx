import { useQuery } from '@tanstack/react-query'
import { type AlertChange, severities } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { SeverityMark } from '../parts/marks.tsx'
import { Time } from '../parts/time.tsx'
import { type Alert, type AlertFilter, alertCountsQuery, alertsQuery, type Channel } from '../service/alerts.ts'
import { call, sentenceOf } from '../service/client.ts'
import { sessionQuery, useMayOperate } from '../service/session.ts'
import { useKeys } from '../shell/keys.ts'
import { OperatorButton, OutcomeText } from './action-parts.tsx'
import { AlertDrawer } from './alert-drawer.tsx'
import { countOf, headlineOf, stateText, statusNames } from './alert-texts.ts'
import { AssignDialog } from './assign-dialog.tsx'
import { changeAll } from './change-alerts.ts'
import type { AlertSearch } from './search.ts'
import { useAction } from './use-action.ts'

const pageRows = 100
/** Maximum rows per page of the service. */
const maxRows = 1_000
const narrowed = ['instance_id', 'event_type', 'assignee'] as const
const states = ['open', 'acknowledged', 'resolved'] as const

interface QueueProps {
  search: AlertSearch
  channels: readonly Channel[] | undefined
  onShow(change: Partial<AlertSearch>): void
}

function NoAlerts({ channels, isNarrowed, onShow }: Pick<QueueProps, 'channels' | 'onShow'> & { isNarrowed: boolean }) {
  if (channels?.length === 0) {
    return (
      <div className="empty teach">
        <p>
          Nothing becomes an alert before there is a channel that takes it: set one up, such as Slack, e-mail or a
          webhook, and send a test.
        </p>
        <OperatorButton onClick={() => onShow({ view: 'channels' })}>Set up a channel</OperatorButton>
      </div>
    )
  }
  return <p className="empty">{isNarrowed ? 'No alert matches the filters.' : 'Nothing is open.'}</p>
}

export function Queue({ search, channels, onShow }: QueueProps) {
  const { status = 'open', severity, alert: opened } = search
  const [limit, setLimit] = useState(pageRows)
  const [at, setAt] = useState(0)
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const [isAssigning, setAssigning] = useState(false)
  const mayOperate = useMayOperate()
  const { data: session } = useQuery(sessionQuery)
  const more = Object.fromEntries(narrowed.flatMap((name) => (search[name] ? [[name, search[name]]] : [])))
  const filter: AlertFilter = {
    ...more,
    ...(status === 'all' ? {} : { status }),
    ...(severity === undefined ? { min_severity: 'warning' } : { severity }),
  }
  const list = useQuery(alertsQuery(filter, limit))
  const { data: counted24 } = useQuery(alertCountsQuery(more))
  const counts = counted24?.counts ?? []
  const rows = list.data?.alerts ?? []
  const current = rows[Math.min(at, rows.length - 1)]
  const chosen = rows.filter(({ id }) => selected.has(id))
  const { isBusy, outcome, run } = useAction('alerts')

  const change = (change: Partial<AlertSearch>) => {
    setAt(0)
    setLimit(pageRows)
    setSelected(new Set())
    onShow(change)
  }
  const open = (id: string | undefined) => onShow({ alert: id })
  const toggle = (id: string) => {
    const next = new Set(selected)
    if (!next.delete(id)) next.add(id)
    setSelected(next)
  }
  async function changeThese(alerts: readonly Alert[], done: string, body: AlertChange) {
    if (alerts.length === 0 || isBusy || !mayOperate) return
    await run(async () => {
      const sentence = await changeAll(alerts, done, ({ id }) => call('changeAlert', { params: { id }, body }))
      // Together with the result, so that a later selection is not lost.
      setSelected(new Set())
      return sentence
    })
  }
  const acknowledge = (alerts: readonly Alert[]) =>
    changeThese(
      alerts.filter((alert) => alert.status === 'open'),
      'acknowledged',
      { status: 'acknowledged' },
    )
  useKeys({
    j: () => setAt(Math.min(rows.length - 1, at + 1)),
    k: () => setAt(Math.max(0, at - 1)),
    Enter: () => open(current?.id),
    x: () => current && toggle(current.id),
    a: () => void acknowledge(chosen.length > 0 ? chosen : current ? [current] : []),
    Escape: () => setSelected(new Set()),
  })
  const countText = (given: Parameters<typeof countOf>[1]) =>
    counted24 ? countOf(counts, given).toLocaleString('en') : '…'
  const chosenStatus = status === 'all' ? undefined : status
  const unresolved = chosen.filter((alert) => alert.status !== 'resolved')
  return (
    <>
      <div className="chips" role="group" aria-label="State">
        {states.map((state) => (
          <button
            key={state}
            type="button"
            className="chip"
            aria-pressed={status === state}
            onClick={() => change({ status: state === 'open' ? undefined : state })}
          >
            {statusNames[state]} <b>{countText({ status: state, severity })}</b>
          </button>
        ))}
        <button
          type="button"
          className="chip"
          aria-pressed={status === 'all'}
          onClick={() => change({ status: 'all' })}
        >
          All <b>{countText({ severity })}</b>
        </button>
        {narrowed.flatMap((name) => {
          const value = search[name]
          return value === undefined
            ? []
            : [
                <button
                  key={name}
                  type="button"
                  className="chip"
                  aria-pressed="true"
                  onClick={() => change({ [name]: undefined })}
                >
                  {name} <HostileText text={value} line max={60} /> ×
                </button>,
              ]
        })}
        {session && search.assignee === undefined && (
          <button type="button" className="chip" onClick={() => change({ assignee: session.name, status: 'all' })}>
            Mine
          </button>
        )}
      </div>
      <div className="chips" role="group" aria-label="Severity">
        <button
          type="button"
          className="chip"
          aria-pressed={severity === undefined}
          onClick={() => change({ severity: undefined })}
        >
          warning and above <b>{countText({ status: chosenStatus })}</b>
        </button>
        {severities.toReversed().map((one) => (
          <button
            key={one}
            type="button"
            className="chip"
            aria-pressed={severity === one}
            onClick={() => change({ severity: severity === one ? undefined : one })}
          >
            {one} <b>{countText({ status: chosenStatus, severity: one })}</b>
          </button>
        ))}
        {counted24?.complete === false && (
          <span className="quiet">counted among the newest 10,000 unresolved, and the newest 10,000 of all</span>
        )}
      </div>
      {list.error && (
        <p role="alert" className="fault">
          {sentenceOf(list.error)}
        </p>
      )}
      <section className="panel" aria-label="Alerts, newest first">
        <header>
          <label className="tick">
            <input
              type="checkbox"
              aria-label={`Select all ${rows.length} alerts shown`}
              checked={rows.length > 0 && chosen.length === rows.length}
              disabled={rows.length === 0}
              onChange={() =>
                setSelected(chosen.length === rows.length ? new Set() : new Set(rows.map(({ id }) => id)))
              }
            />
          </label>
          <span className="quiet">newest first</span>
          <OutcomeText outcome={outcome} />
          <span className="end keys" aria-hidden="true">
            <kbd>j</kbd> <kbd>k</kbd> <kbd>Enter</kbd> <kbd>x</kbd> <kbd>a</kbd>
          </span>
        </header>
        <ul>
          {rows.map((alert, index) => (
            <li
              key={alert.id}
              className={`alert-row ${selected.has(alert.id) ? 'picked' : ''} ${index === at ? 'at' : ''}`}
            >
              <label className="tick">
                <input
                  type="checkbox"
                  aria-label={`Select ${headlineOf(alert)}`}
                  checked={selected.has(alert.id)}
                  onChange={() => toggle(alert.id)}
                />
              </label>
              <SeverityMark severity={alert.severity} />
              <button
                type="button"
                className="what"
                aria-current={index === at ? 'true' : undefined}
                onClick={() => {
                  setAt(index)
                  open(alert.id)
                }}
              >
                <b>{headlineOf(alert)}</b>
                <span className="quiet">
                  <Time at={alert.created_at} />
                  {' · '}
                  <HostileText text={alert.description} line max={200} />
                </span>
              </button>
              <span className="state quiet">
                {stateText(alert)}
                {alert.assignee !== null && (
                  <>
                    {' · '}
                    <HostileText text={alert.assignee} line max={40} />
                  </>
                )}
              </span>
              <span className="actions">
                {alert.status === 'open' && (
                  <OperatorButton disabled={isBusy} onClick={() => void acknowledge([alert])}>
                    Acknowledge<span className="only-read"> {headlineOf(alert)}</span>
                  </OperatorButton>
                )}
              </span>
            </li>
          ))}
        </ul>
        {list.data && rows.length === 0 && (
          <NoAlerts
            channels={channels}
            isNarrowed={Object.keys(more).length > 0 || severity !== undefined}
            onShow={onShow}
          />
        )}
        {list.data?.next != null && (
          <p className="empty">
            {rows.length < limit ? (
              'Only the newest 100,000 alerts were searched.'
            ) : limit < maxRows ? (
              <button type="button" onClick={() => setLimit(Math.min(maxRows, limit + pageRows * 3))}>
                Show older alerts
              </button>
            ) : (
              `The newest ${maxRows.toLocaleString('en')} are shown: narrow the filters for older ones.`
            )}
          </p>
        )}
      </section>
      {chosen.length > 0 && (
        <div className="panel selection" role="region" aria-label="Selected alerts">
          <span role="status">
            <b>{counted(chosen.length, 'alert')} selected</b>
          </span>
          <span className="end">
            <button type="button" onClick={() => setSelected(new Set())}>
              Clear <kbd>Esc</kbd>
            </button>
            <OperatorButton disabled={isBusy} onClick={() => setAssigning(true)}>
              Assign…
            </OperatorButton>
            {unresolved.length < chosen.length && (
              <OperatorButton
                disabled={isBusy}
                onClick={() =>
                  void changeThese(
                    chosen.filter((alert) => alert.status === 'resolved'),
                    'reopened',
                    { status: 'open' },
                  )
                }
              >
                Reopen {chosen.length - unresolved.length}
              </OperatorButton>
            )}
            <OperatorButton
              disabled={isBusy || unresolved.length === 0}
              onClick={() =>
                void changeThese(unresolved, 'resolved as false positives', {
                  status: 'resolved',
                  verdict: 'false_positive',
                })
              }
            >
              False positive
            </OperatorButton>
            <OperatorButton
              disabled={isBusy || unresolved.length === 0}
              onClick={() => void changeThese(unresolved, 'resolved', { status: 'resolved' })}
            >
              Resolve {unresolved.length}
            </OperatorButton>
            <OperatorButton
              className="go"
              disabled={isBusy || chosen.every((alert) => alert.status !== 'open')}
              onClick={() => void acknowledge(chosen)}
            >
              Acknowledge {chosen.filter((alert) => alert.status === 'open').length} <kbd>a</kbd>
            </OperatorButton>
          </span>
        </div>
      )}
      {isAssigning && (
        <AssignDialog
          count={chosen.length}
          onClose={() => setAssigning(false)}
          onAssign={(assignee) =>
            void changeThese(chosen, assignee === null ? 'taken from their assignees' : 'assigned', { assignee })
          }
        />
      )}
      {opened !== undefined && (
        <AlertDrawer
          key={opened}
          id={opened}
          rows={rows}
          channels={channels}
          onOpen={open}
          onSame={(same) => change({ ...same, alert: undefined })}
          onClose={() => open(undefined)}
        />
      )}
    </>
  )
}
