import { Link, linkOptions, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import type { Agent } from '../data/fleet.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useMayOperate } from '../data/session.ts'
import { SeverityMark } from '../parts/marks.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { ControlButton } from '../suspend/control-button.tsx'
import { buttonClass } from '../ui/button.tsx'
import { EmptyState, Fault } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'
import { Time } from '../ui/time.tsx'
import type { AttentionItem } from './attention.ts'
import { ItemFacts } from './item-facts.tsx'
import css from './overview.module.css'

/** More items would not help at 3 a.m.; the others move up as these are handled. */
const maxShown = 8

interface ItemProps {
  item: AttentionItem
  agent: Agent | undefined
  /** Whether the keys act on it. */
  isKeyed: boolean
}

function Acknowledge({ id, item, isKeyed }: { id: string; item: AttentionItem; isKeyed: boolean }) {
  const mayOperate = useMayOperate()
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.alerts] })
  const acknowledge = () =>
    void run(async () => {
      await call('changeAlert', { params: { id }, body: { status: 'acknowledged', whole_group: true } })
      return 'Alert acknowledged.'
    })
  const isKeyShown = isKeyed && mayOperate
  useKeys(isKeyShown ? { a: acknowledge } : {})
  return (
    <>
      <OperatorButton
        disabled={isBusy}
        onClick={acknowledge}
        about={item.headline}
        {...(isKeyShown ? { shortcut: 'a' } : {})}
      >
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
  return linkOptions({ to: '/fleet', search: { status: kind === 'unconfirmed' ? 'unconfirmed' : 'offline' } })
}

function Item({ item, agent, isKeyed }: ItemProps) {
  return (
    <li aria-current={isKeyed || undefined}>
      <SeverityMark severity={item.severity} />
      <div>
        <b>
          <Link {...targetOf(item)}>{item.headline}</Link>
        </b>
        <ItemFacts item={item} agent={agent} />
      </div>
      <div className={css.actions}>
        {item.alertId ? (
          <Acknowledge id={item.alertId} item={item} isKeyed={isKeyed} />
        ) : (
          <Link {...targetOf(item)} className={buttonClass()} aria-label={`Open: ${item.headline}`}>
            Open
          </Link>
        )}
        {agent && (item.kind === 'breach' || item.kind === 'critical') && (
          <ControlButton agent={agent} because={`${item.headline}: `} isKeyed={isKeyed} />
        )}
      </div>
    </li>
  )
}

interface QueueProps {
  items: readonly AttentionItem[]
  agents: readonly Agent[]
  checkedAt: number
}

/** What needs a person, worst first. `j` and `k` move through it. */
export function AttentionQueue({ items, agents, checkedAt }: QueueProps) {
  const navigate = useNavigate()
  const [picked, setPicked] = useState(0)
  const count = Math.min(items.length, maxShown)
  const at = Math.min(picked, count - 1)
  const byId = new Map(agents.map((agent) => [agent.id, agent]))
  useKeys({
    j: () => setPicked(Math.min(count - 1, at + 1)),
    k: () => setPicked(Math.max(0, at - 1)),
    Enter: () => {
      const item = items[at]
      if (item) void navigate(targetOf(item))
    },
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
    <ul className={css.queue}>
      {items.slice(0, maxShown).map((item, index) => (
        <Item key={item.key} item={item} agent={byId.get(item.agentId ?? '')} isKeyed={index === at} />
      ))}
      {items.length > maxShown && <li className="quiet">{items.length - maxShown} more</li>}
    </ul>
  )
}
