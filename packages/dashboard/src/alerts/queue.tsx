import { useQuery } from '@tanstack/react-query'
import { type AlertChange, titleOf } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { type Alert, type AlertFilter, alertsQuery, type Channel } from '../data/alerts.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useMayOperate } from '../data/session.ts'
import { SeverityMark } from '../parts/marks.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { Button } from '../ui/button.tsx'
import { Tick } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { EmptyState, Fault, Panel } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'
import { Time } from '../ui/time.tsx'
import { stateText } from './alert-texts.ts'
import css from './alerts.module.css'
import { changeAll } from './change-alerts.ts'
import { narrowedOf, QueueFilters } from './queue-filters.tsx'
import type { AlertSearch } from './search.ts'

const AlertDrawer = lazyDialog(async () => (await import('./alert-drawer.tsx')).AlertDrawer)
const AssignDialog = lazyDialog(async () => (await import('./assign-dialog.tsx')).AssignDialog)

const pageRows = 100
/** Maximum rows per page of the service. */
const maxRows = 1_000

interface QueueProps {
  search: AlertSearch
  channels: readonly Channel[] | undefined
  onShow(change: Partial<AlertSearch>): void
}

/** The rows of the queue, the row that keys act on, the selection, and changes of both. */
function useQueue({ search, onShow }: QueueProps) {
  const { status = 'open', severity } = search
  const [limit, setLimit] = useState(pageRows)
  const [at, setAt] = useState(0)
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const mayOperate = useMayOperate()
  const filter: AlertFilter = {
    ...narrowedOf(search),
    ...(status === 'all' ? {} : { status }),
    ...(severity === undefined ? { min_severity: 'warning' } : { severity }),
  }
  const list = useQuery(alertsQuery(filter, limit))
  const rows = list.data?.alerts ?? []
  const current = rows[Math.min(at, rows.length - 1)]
  const chosen = rows.filter(({ id }) => selected.has(id))
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.alerts] })

  const show = (change: Partial<AlertSearch>) => {
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
  const change = (alerts: readonly Alert[], done: string, body: AlertChange) => {
    if (alerts.length === 0 || !mayOperate) return
    void run(async () => {
      const sentence = await changeAll(alerts, done, ({ id }) => call('changeAlert', { params: { id }, body }))
      // Together with the result, so that a later selection is not lost.
      setSelected(new Set())
      return sentence
    })
  }
  const acknowledge = (alerts: readonly Alert[]) =>
    change(
      alerts.filter((alert) => alert.status === 'open'),
      'acknowledged',
      { status: 'acknowledged' },
    )
  useKeys({
    j: () => setAt(Math.min(rows.length - 1, at + 1)),
    k: () => setAt(Math.max(0, at - 1)),
    Enter: () => open(current?.id),
    x: () => current && toggle(current.id),
    a: () => acknowledge(chosen.length > 0 ? chosen : current ? [current] : []),
    Escape: () => setSelected(new Set()),
  })
  return {
    ...{ list, rows, at, limit, selected, chosen, isBusy, fault },
    ...{ setAt, setLimit, setSelected, show, open, toggle, change, acknowledge },
  }
}

type QueueState = ReturnType<typeof useQueue>

export function Queue(props: QueueProps) {
  const { search, channels, onShow } = props
  const queue = useQueue(props)
  const { list, rows, chosen, fault } = queue
  const isNarrowed = search.status !== undefined || search.severity !== undefined || narrowedOf(search) !== undefined
  return (
    <>
      <QueueFilters search={search} onShow={queue.show} />
      <Fault of={list.error} />
      <Panel
        label="Alerts, newest first"
        header={
          <>
            <Tick
              label={`Select all ${rows.length} alerts shown`}
              checked={rows.length > 0 && chosen.length === rows.length}
              disabled={rows.length === 0}
              onChange={() => queue.setSelected(new Set(chosen.length === rows.length ? [] : rows.map(({ id }) => id)))}
            />
            <span className="quiet">newest first</span>
          </>
        }
        end={
          <span className={css.keys} aria-hidden="true">
            <kbd>j</kbd> <kbd>k</kbd> <kbd>Enter</kbd> <kbd>x</kbd> <kbd>a</kbd>
          </span>
        }
      >
        {chosen.length === 0 && <Fault of={fault} isInPanel />}
        <ul>
          {rows.map((alert, index) => (
            <AlertRow key={alert.id} alert={alert} index={index} queue={queue} />
          ))}
        </ul>
        {list.isPending && <EmptyState>Loading alerts…</EmptyState>}
        {list.data && rows.length === 0 && channels?.length === 0 && (
          <EmptyState
            action={<OperatorButton onClick={() => onShow({ view: 'channels' })}>Set up a channel</OperatorButton>}
          >
            Alerts are created only once a channel accepts them. Set up a channel, such as Slack, e-mail or a webhook,
            and send a test.
          </EmptyState>
        )}
        {list.data && rows.length === 0 && channels?.length !== 0 && (
          <EmptyState>{isNarrowed ? 'No alerts match the filters.' : 'No open alerts.'}</EmptyState>
        )}
        {list.data?.next != null && <Older queue={queue} />}
      </Panel>
      {chosen.length > 0 && <Selection queue={queue} />}
      {search.alert !== undefined && (
        <AlertDrawer
          key={search.alert}
          id={search.alert}
          rows={rows}
          channels={channels}
          onOpen={queue.open}
          onSame={(same) => queue.show({ ...same, alert: undefined })}
          onClose={() => queue.open(undefined)}
        />
      )}
    </>
  )
}

function AlertRow({ alert, index, queue }: { alert: Alert; index: number; queue: QueueState }) {
  const { at, selected, isBusy } = queue
  const headline = titleOf(alert)
  const isSelected = selected.has(alert.id)
  return (
    <li data-part="alert" className={`${css.row} ${isSelected ? css.picked : ''} ${index === at ? css.at : ''}`}>
      <Tick label={`Select ${headline}`} checked={isSelected} onChange={() => queue.toggle(alert.id)} />
      <SeverityMark severity={alert.severity} />
      <div className={css.what}>
        <Button
          kind="plain"
          aria-current={index === at ? 'true' : undefined}
          onClick={() => {
            queue.setAt(index)
            queue.open(alert.id)
          }}
        >
          {headline}
        </Button>
        <span className="quiet">
          <Time at={alert.created_at} /> <HostileText text={alert.description} line max={200} />
        </span>
      </div>
      <span className={`quiet ${css.state}`}>
        {stateText(alert)}
        {alert.assignee !== null && (
          <>
            {' · '}
            <HostileText text={alert.assignee} line max={40} />
          </>
        )}
      </span>
      <span className={css.actions}>
        {alert.status === 'open' && (
          <OperatorButton about={headline} disabled={isBusy} onClick={() => queue.acknowledge([alert])}>
            Acknowledge
          </OperatorButton>
        )}
      </span>
    </li>
  )
}

function Older({ queue: { rows, limit, setLimit } }: { queue: QueueState }) {
  const more = () => setLimit(Math.min(maxRows, limit + pageRows * 3))
  if (rows.length < limit) return <EmptyState>Only the newest 100,000 alerts were searched.</EmptyState>
  return (
    <EmptyState action={limit < maxRows && <Button onClick={more}>Show more</Button>}>
      The newest {limit.toLocaleString('en')} alerts are shown.
      {limit >= maxRows && ' Narrow the filters for older ones.'}
    </EmptyState>
  )
}

function Selection({ queue: { chosen, isBusy, fault, setSelected, change, acknowledge } }: { queue: QueueState }) {
  const [isAssigning, setAssigning] = useState(false)
  const open = chosen.filter(({ status }) => status === 'open')
  const unresolved = chosen.filter(({ status }) => status !== 'resolved')
  const resolved = chosen.filter(({ status }) => status === 'resolved')
  return (
    <Panel
      label="Selected alerts"
      className={css.selection}
      header={
        <>
          <b role="status">{counted(chosen.length, 'alert')} selected</b>
          <Fault of={fault} />
        </>
      }
      end={
        <>
          <Button shortcut="Esc" onClick={() => setSelected(new Set())}>
            Clear
          </Button>
          <OperatorButton disabled={isBusy} onClick={() => setAssigning(true)}>
            Assign…
          </OperatorButton>
          {resolved.length > 0 && (
            <OperatorButton disabled={isBusy} onClick={() => change(resolved, 'reopened', { status: 'open' })}>
              Reopen {resolved.length}
            </OperatorButton>
          )}
          <OperatorButton
            disabled={isBusy || unresolved.length === 0}
            onClick={() =>
              change(unresolved, 'resolved as false positives', { status: 'resolved', verdict: 'false_positive' })
            }
          >
            False positive
          </OperatorButton>
          <OperatorButton
            disabled={isBusy || unresolved.length === 0}
            onClick={() => change(unresolved, 'resolved', { status: 'resolved' })}
          >
            Resolve {unresolved.length}
          </OperatorButton>
          <OperatorButton
            kind="go"
            shortcut="a"
            disabled={isBusy || open.length === 0}
            onClick={() => acknowledge(chosen)}
          >
            Acknowledge {open.length}
          </OperatorButton>
        </>
      }
    >
      {isAssigning && (
        <AssignDialog
          count={chosen.length}
          onClose={() => setAssigning(false)}
          onAssign={(assignee) => change(chosen, assignee === null ? 'unassigned' : 'assigned', { assignee })}
        />
      )}
    </Panel>
  )
}
