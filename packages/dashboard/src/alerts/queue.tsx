import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type AlertChange, descriptionOf, titleOf } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { type Alert, type AlertFilter, alertCountsQuery, alertsQuery, type Channel } from '../data/alerts.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useMayOperate } from '../data/session.ts'
import { EventTitle } from '../parts/agent-id.tsx'
import { SetChips, SeverityChips } from '../parts/filter-chips.tsx'
import { SeverityMark } from '../parts/marks.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { Button, Chip, ChipGroup } from '../ui/button.tsx'
import { Tick } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { EmptyState, Fault, Notice, Panel } from '../ui/panel.tsx'
import { useRows } from '../ui/rows.ts'
import { useKeys } from '../ui/shortcuts.ts'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { AlertActions, acknowledge, changedBy } from './alert-actions.tsx'
import { countOf, stateText, statusNames } from './alert-texts.ts'
import css from './alerts.module.css'
import { changeAll } from './change-alerts.ts'
import type { AlertSearch } from './search.ts'

const AlertDrawer = lazyDialog(async () => (await import('./alert-dialogs.tsx')).AlertDrawer)
const AssignDialog = lazyDialog(async () => (await import('./assignment.tsx')).AssignDialog)

const pageRows = 100
/** Maximum rows per page of the service. */
const maxRows = 1_000

const states = ['open', 'acknowledged', 'resolved', 'all'] as const
/** Filters besides state and severity. */
const narrowed = { instance_id: 'Agent', event_type: 'Type', assigned: 'Assigned' } as const
const narrowedOf = ({ instance_id, event_type, assigned }: AlertSearch) => ({ instance_id, event_type, assigned })

interface QueueProps {
  search: AlertSearch
  channels: readonly Channel[] | undefined
  onShow(change: Partial<AlertSearch>): void
}

function useSelection(rows: readonly Alert[]) {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const chosen = rows.filter(({ id }) => selected.has(id))
  const choose = (alerts: readonly Alert[]) => setSelected(new Set(alerts.map(({ id }) => id)))
  const toggle = (alert: Alert) =>
    choose(chosen.includes(alert) ? chosen.filter((other) => other !== alert) : [...chosen, alert])
  return { chosen, choose, toggle, clear: () => choose([]) }
}

/** The rows of the queue, the row that keys act on, the selection, and changes of both. */
function useQueue({ search, onShow }: QueueProps) {
  const { status = 'open', severity } = search
  const [limit, setLimit] = useState(pageRows)
  const mayOperate = useMayOperate()
  const filter: AlertFilter = {
    ...narrowedOf(search),
    ...(status === 'all' ? {} : { status }),
    ...(severity === undefined ? { min_severity: 'warning' } : { severity }),
  }
  const list = useQuery(alertsQuery(filter, limit))
  const rows = list.data?.alerts ?? []
  const selection = useSelection(rows)
  const { chosen, clear } = selection
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.alerts] })

  const open = (id: string | undefined) => onShow({ alert: id })
  const change = (alerts: readonly Alert[], { body, done }: { body: AlertChange; done: string }) => {
    if (alerts.length === 0 || !mayOperate) return
    void run(async () => {
      const sentence = await changeAll(alerts, done, ({ id }) => call('changeAlert', { params: { id }, body }))
      // Together with the result, so that a later selection is not lost.
      clear()
      return sentence
    })
  }
  const cursor = useRows(rows, {
    Enter: ({ id }) => open(id),
    x: selection.toggle,
    a: (row) => change(changedBy(acknowledge, chosen.length > 0 ? chosen : [row]), acknowledge),
  })
  useKeys({ Escape: clear })
  const show = (next: Partial<AlertSearch>) => {
    cursor.setAt(0)
    setLimit(pageRows)
    clear()
    onShow(next)
  }
  return { search, list, rows, limit, cursor, selection, isBusy, fault, setLimit, show, open, change }
}

type QueueState = ReturnType<typeof useQueue>

export function Queue(props: QueueProps) {
  const { search, channels } = props
  const queue = useQueue(props)
  const { list, rows, selection, isBusy } = queue
  const { chosen } = selection
  const isWhole = rows.length > 0 && chosen.length === rows.length
  return (
    <>
      <Unnotified channels={channels} />
      <Filters search={search} onShow={queue.show} />
      <DataTable
        label="Alerts, newest first"
        note={
          <span className="chips">
            <Tick
              label={`Select all ${rows.length} alerts shown`}
              checked={isWhole}
              disabled={rows.length === 0}
              onChange={() => selection.choose(isWhole ? [] : rows)}
            />
            newest first
          </span>
        }
        end={
          <span className={css.keys} aria-hidden="true">
            <kbd>j</kbd> <kbd>k</kbd> <kbd>Enter</kbd> <kbd>x</kbd> <kbd>a</kbd>
          </span>
        }
        fault={list.error ?? (chosen.length === 0 ? queue.fault : undefined)}
        rows={list.data?.alerts}
        rowKey={({ id }) => id}
        maxRows={maxRows}
        at={queue.cursor.at}
        empty={<NoAlerts search={search} />}
        columns={columnsOf(queue)}
        actions={(alert) =>
          alert.status === 'open' && (
            <OperatorButton about={titleOf(alert)} disabled={isBusy} onClick={() => queue.change([alert], acknowledge)}>
              Acknowledge
            </OperatorButton>
          )
        }
        foot={list.data?.next != null && <Older queue={queue} />}
      />
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

function Filters({ search, onShow }: Pick<QueueProps, 'search' | 'onShow'>) {
  const { status: state = 'open', severity } = search
  const { data } = useQuery(alertCountsQuery(narrowedOf(search)))
  const count = (chosen: Parameters<typeof countOf>[1]) => data && countOf(data.counts, chosen)
  const statusOf = (shown: (typeof states)[number]) => (shown === 'all' ? undefined : shown)
  return (
    <div className={css.filters}>
      <div className="chips">
        <ChipGroup
          label="State"
          value={state}
          options={states.map((value) => ({
            value,
            name: value === 'all' ? 'All' : statusNames[value],
            count: count({ status: statusOf(value), severity }),
          }))}
          onChange={(value) => onShow({ status: value === 'open' ? undefined : value })}
        />
        <SetChips names={narrowed} search={search} onShow={onShow} />
        {search.assigned === undefined && (
          <>
            <Chip isOn={false} onClick={() => onShow({ assigned: 'me', status: 'all' })}>
              Assigned to me
            </Chip>
            <Chip isOn={false} onClick={() => onShow({ assigned: 'none' })}>
              Unassigned
            </Chip>
          </>
        )}
      </div>
      <SeverityChips
        value={severity}
        all={{ name: 'Warning and above', count: count({ status: statusOf(state) }) }}
        countOf={(value) => count({ status: statusOf(state), severity: value })}
        onChange={(value) => onShow({ severity: value })}
      />
      {data?.complete === false && (
        <p className="quiet">Counts cover the newest 10,000 alerts and the newest 10,000 unresolved alerts.</p>
      )}
    </div>
  )
}

const columnsOf = ({ search, rows, cursor, selection: { chosen, toggle } }: QueueState): Column<Alert>[] => [
  {
    name: 'Severity',
    kind: 'word',
    cell: (alert) => (
      <>
        <Tick label={`Select ${titleOf(alert)}`} checked={chosen.includes(alert)} onChange={() => toggle(alert)} />
        <SeverityMark severity={alert.severity} />
      </>
    ),
  },
  {
    name: 'Alert',
    kind: 'line',
    cell: (alert) => (
      <>
        <Link
          to="/alerts"
          search={{ ...search, alert: alert.id }}
          replace
          onClick={() => cursor.setAt(rows.indexOf(alert))}
        >
          <EventTitle of={alert} />
        </Link>
        <div className="quiet cut">
          <Time at={alert.created_at} /> <HostileText text={descriptionOf(alert)} line max={200} />
        </div>
      </>
    ),
  },
  {
    name: 'State',
    kind: 'word',
    cell: (alert) => (
      <div className="quiet">
        {stateText(alert)}
        <div>
          {alert.assignee_name !== null && <HostileText text={alert.assignee_name} line max={40} />}
          {alert.assignee_ended && ' (no access)'}
        </div>
        {alert.comment_count > 0 && <div>{counted(alert.comment_count, 'comment')}</div>}
      </div>
    ),
  },
]

function NoAlerts({ search }: Pick<QueueProps, 'search'>) {
  const { status, severity } = search
  const isFiltered = [status, severity, ...Object.values(narrowedOf(search))].some((value) => value !== undefined)
  return isFiltered ? 'No matching alerts.' : 'No open alerts.'
}

/** Says that alerts are only listed here. Draws nothing while a channel is enabled. */
function Unnotified({ channels }: Pick<QueueProps, 'channels'>) {
  if (channels === undefined || channels.some(({ enabled }) => enabled)) return null
  const isNone = channels.length === 0
  return (
    <Notice>
      {isNone
        ? 'Nobody is notified of alerts until a channel is set up, such as Slack, e-mail or a webhook.'
        : 'Nobody is notified of alerts: all channels are disabled.'}{' '}
      <Link to="/alerts" search={{ view: 'channels' }}>
        {isNone ? 'Set up a channel' : 'Open channels'}
      </Link>
    </Notice>
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

function Selection({ queue: { selection, isBusy, fault, change } }: { queue: QueueState }) {
  const { chosen, clear } = selection
  const [isAssigning, setAssigning] = useState(false)
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
          <AlertActions isCounted alerts={chosen} isBusy={isBusy} onChange={change} />
          <OperatorButton disabled={isBusy} onClick={() => setAssigning(true)}>
            Assign…
          </OperatorButton>
          <Button shortcut="Esc" onClick={clear}>
            Clear
          </Button>
        </>
      }
    >
      {isAssigning && (
        <AssignDialog
          count={chosen.length}
          onClose={() => setAssigning(false)}
          onAssign={(assignee) =>
            change(chosen, { body: { assignee }, done: assignee === null ? 'unassigned' : 'assigned' })
          }
        />
      )}
    </Panel>
  )
}
