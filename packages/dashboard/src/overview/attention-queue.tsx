import { Link, linkOptions, useNavigate } from '@tanstack/react-router'
import { type ReactNode, useId, useState } from 'react'
import { changeAll } from '../alerts/change-alerts.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { shownStatus } from '../data/fleet-counts.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useMayOperate } from '../data/session.ts'
import { AgentText } from '../parts/agent-id.tsx'
import { AgentPages } from '../parts/agent-link.tsx'
import { SeverityMark, StatusMark } from '../parts/marks.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { ControlButton } from '../suspend/control-button.tsx'
import { Button, buttonClass } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState, Fault } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'
import { Time } from '../ui/time.tsx'
import type { AttentionItem } from './attention.ts'
import css from './overview.module.css'
import { SuspendMany } from './suspend-many.tsx'

/** More items would not help at 3 a.m.; the others move up as these are handled. */
const maxShown = 8

interface QueueLineProps {
  item: AttentionItem
  heading: ReactNode
  /** Whether the report is cut to the width. */
  isCut?: boolean
  /** Whether the keys act on it. */
  isKeyed?: boolean
  /** Shown below. */
  details?: ReactNode
  /** Its buttons. */
  children?: ReactNode
}

/** What needs a person: severity, heading, when, how often, and what the reporter says. */
export function QueueLine({ item, heading, isCut = false, isKeyed, details, children }: QueueLineProps) {
  const { severity, agent, kind, at, firstAt, facts, report } = item
  return (
    <li aria-current={isKeyed || undefined}>
      <SeverityMark severity={severity} />
      <div>
        <b>{heading}</b>
        <p>
          {agent?.status === 'suspended' && kind !== 'unconfirmed' && (
            <>
              <StatusMark status={shownStatus(agent)} />
              {' · '}
            </>
          )}
          {firstAt !== undefined && (
            <>
              the first at <Time at={firstAt} />, the newest at{' '}
            </>
          )}
          <Time at={at} />
          {facts && ` · ${facts}`}
          {report !== undefined && ' · '}
          {report !== undefined && <HostileText text={report} max={160} line={isCut} />}
        </p>
      </div>
      {children}
      {details && <div className={css.details}>{details}</div>}
    </li>
  )
}

/** Acknowledges an alert and all of the same type and agent. */
const acknowledgeAlert = (id: string) =>
  call('changeAlert', { params: { id }, body: { status: 'acknowledged', whole_group: true } })

async function acknowledgeOne(id: string): Promise<string> {
  await acknowledgeAlert(id)
  return 'Alert acknowledged.'
}

/** Acknowledges what an item about many agents counts, agent by agent. */
function acknowledgeMany({ agentIds = [], eventType, severity }: AttentionItem): Promise<string> {
  return changeAll(
    agentIds,
    'acknowledged',
    async (instance_id) => {
      const query = {
        status: 'open' as const,
        severity,
        instance_id,
        limit: '1',
        ...(eventType && { event_type: eventType }),
      }
      const [alert] = (await call('listAlerts', { query })).alerts
      if (alert) await acknowledgeAlert(alert.id)
    },
    'agent',
  )
}

interface AcknowledgeProps {
  about: string
  isKeyed: boolean
  /** Resolves with what was done. */
  send(): Promise<string>
}

function Acknowledge({ about, isKeyed, send }: AcknowledgeProps) {
  const mayOperate = useMayOperate()
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.alerts] })
  const acknowledge = () => void run(send)
  const isKeyShown = isKeyed && mayOperate
  useKeys(isKeyShown ? { a: acknowledge } : {})
  return (
    <>
      <OperatorButton disabled={isBusy} onClick={acknowledge} about={about} {...(isKeyShown ? { shortcut: 'a' } : {})}>
        Acknowledge
      </OperatorButton>
      <Fault of={fault} />
    </>
  )
}

function targetOf({ agentId, containmentId, kind }: AttentionItem) {
  if (agentId !== undefined) return linkOptions({ to: '/fleet/$id', params: { id: agentId } })
  if (containmentId !== undefined) return linkOptions({ to: '/containments/$id', params: { id: containmentId } })
  if (kind === 'drill' || kind === 'brake') return linkOptions({ to: '/containments' })
  if (kind === 'breach' || kind === 'critical')
    return linkOptions({ to: '/events', search: { severity: kind, last: '24h' } })
  return linkOptions({ to: '/fleet', search: { status: kind === 'unconfirmed' ? 'unconfirmed' : 'offline' } })
}

function Actions({ item, isKeyed }: { item: AttentionItem; isKeyed: boolean }) {
  const { alertId, headline, agent, kind } = item
  return (
    <div className={`chips ${css.actions}`}>
      {alertId ? (
        <Acknowledge about={headline} isKeyed={isKeyed} send={() => acknowledgeOne(alertId)} />
      ) : (
        <Link {...targetOf(item)} className={buttonClass()} aria-label={`Open: ${headline}`}>
          Open
        </Link>
      )}
      {agent && (kind === 'breach' || kind === 'critical') && (
        <ControlButton agent={agent} because={`${headline}: `} isKeyed={isKeyed} isSuspendOnly />
      )}
    </div>
  )
}

interface ItemProps {
  item: AttentionItem
  isKeyed: boolean
}

/** An item about many agents. It opens into its agents, and suspends those that are running. */
function ManyItem({ item, isKeyed }: ItemProps) {
  const { headline, severity, eventType, agents = 0, agentIds = [], running = [] } = item
  const list = useId()
  const [isOpen, setOpen] = useState(false)
  const toggle = () => setOpen(!isOpen)
  useKeys(isKeyed ? { Enter: toggle } : {})
  return (
    <QueueLine
      item={item}
      heading={headline}
      isKeyed={isKeyed}
      details={
        isOpen && (
          <div id={list}>
            <AgentPages ids={agentIds.toSorted()} count={agents} label={`Agents: ${headline}`} />
            <Link to="/events" search={{ event_type: eventType, severity, last: '24h' }}>
              Open their events
            </Link>
          </div>
        )
      }
    >
      <div className={`chips ${css.actions}`}>
        <Acknowledge about={headline} isKeyed={isKeyed} send={() => acknowledgeMany(item)} />
        {running.length > 0 && <SuspendMany ids={running} because={headline} isKeyed={isKeyed} />}
        <Button
          aria-expanded={isOpen}
          aria-controls={isOpen ? list : undefined}
          about={`: ${headline}`}
          onClick={toggle}
        >
          {isOpen ? 'Hide' : 'Show'} agents
        </Button>
      </div>
    </QueueLine>
  )
}

function OneItem({ item, isKeyed }: ItemProps) {
  const navigate = useNavigate()
  useKeys(isKeyed ? { Enter: () => void navigate(targetOf(item)) } : {})
  return (
    <QueueLine
      item={item}
      heading={
        <Link {...targetOf(item)}>
          <AgentText text={item.headline} id={item.agentId} />
        </Link>
      }
      isKeyed={isKeyed}
    >
      <Actions item={item} isKeyed={isKeyed} />
    </QueueLine>
  )
}

interface QueueProps {
  items: readonly AttentionItem[]
  /** How many there are with those that are not listed. */
  open: OpenCount
  checkedAt: number
}

interface OpenCount {
  count: number
  isMore: boolean
}

/** How many items follow the first ones. */
export const moreText = ({ count, isMore }: OpenCount, shown: number): string =>
  `${isMore ? 'more than ' : ''}${(count - shown).toLocaleString('en')} more`

/** What needs a person, worst first. `j` and `k` move through it. */
export function AttentionQueue({ items, open, checkedAt }: QueueProps) {
  const [picked, setPicked] = useState(0)
  const count = Math.min(items.length, maxShown)
  const at = Math.min(picked, count - 1)
  useKeys({
    j: () => setPicked(Math.min(count - 1, at + 1)),
    k: () => setPicked(Math.max(0, at - 1)),
  })
  if (items.length === 0) {
    return (
      <EmptyState>
        Nothing needs attention. Last check: <Time at={new Date(checkedAt).toISOString()} />. It covers breaches and
        critical events of 24 h, unconfirmed suspensions, containments, the brake, drills, silent agents and anomalies.
      </EmptyState>
    )
  }
  return (
    <ul className={`lines ${css.queue}`}>
      {items.slice(0, maxShown).map((item, index) => {
        const Item = item.agentIds ? ManyItem : OneItem
        return <Item key={item.key} item={item} isKeyed={index === at} />
      })}
      {items.length > maxShown && (
        <li className="quiet">{moreText(open, maxShown)}. They appear as you handle these.</li>
      )}
    </ul>
  )
}
