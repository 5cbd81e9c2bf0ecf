import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { SeverityMark, StatusMark } from '../parts/marks.tsx'
import { Time } from '../parts/time.tsx'
import { call, sentenceOf } from '../service/client.ts'
import type { Agent } from '../service/fleet.ts'
import { shownStatus } from '../service/fleet-counts.ts'
import { useMayOperate } from '../service/session.ts'
import { useKeys } from '../shell/keys.ts'
import { ControlButton } from '../suspend/control-button.tsx'
import type { AttentionItem } from './attention.ts'

/** More items would not help at 3 a.m.; the others move up as these are handled. */
const maxShown = 8

function Acknowledge({ id, isKeyed }: { id: string; isKeyed: boolean }) {
  const client = useQueryClient()
  const mayOperate = useMayOperate()
  const { mutate, error, isPending } = useMutation({
    mutationFn: () => call('changeAlert', { params: { id }, body: { status: 'acknowledged', whole_group: true } }),
    onSettled: () => client.invalidateQueries({ queryKey: ['alerts'] }),
  })
  useKeys(isKeyed && mayOperate ? { a: () => mutate() } : {})
  return (
    <>
      <button
        type="button"
        disabled={isPending || !mayOperate}
        onClick={() => mutate()}
        title={mayOperate ? undefined : 'Needs a key of scope operator'}
      >
        Acknowledge {isKeyed && mayOperate && <kbd>a</kbd>}
      </button>
      {error && (
        <span role="alert" className="fault">
          {sentenceOf(error)}
        </span>
      )}
    </>
  )
}

/** The first action resolves the problem, the second shows details. */
function Actions({ item, agent, isKeyed }: { item: AttentionItem; agent: Agent | undefined; isKeyed: boolean }) {
  return (
    <span className="actions">
      {item.alertId ? (
        <Acknowledge id={item.alertId} isKeyed={isKeyed} />
      ) : item.agentId ? (
        <Link className="button" to="/fleet/$id" params={{ id: item.agentId }}>
          Look
        </Link>
      ) : item.containmentId ? (
        <Link className="button" to="/containments/$id" params={{ id: item.containmentId }}>
          Look
        </Link>
      ) : item.kind === 'drill' || item.kind === 'brake' ? (
        <Link className="button" to="/containments">
          Look
        </Link>
      ) : (
        <Link
          className="button"
          to="/fleet"
          search={{ status: item.kind === 'unconfirmed' ? 'unconfirmed' : 'offline' }}
        >
          Look
        </Link>
      )}
      {agent && (item.kind === 'breach' || item.kind === 'critical') && (
        <ControlButton agent={agent} because={`${item.headline}: `} isKeyed={isKeyed} />
      )}
    </span>
  )
}

function Suspended({ agent, item }: { agent: Agent | undefined; item: AttentionItem }) {
  if (agent?.status !== 'suspended' || item.kind === 'unconfirmed') return null
  return <StatusMark status={shownStatus(agent)} />
}

export function AttentionQueue({
  items,
  agents,
  checkedAt,
}: {
  items: readonly AttentionItem[]
  agents: ReadonlyMap<string, Agent>
  checkedAt: number
}) {
  const navigate = useNavigate()
  const [picked, setPicked] = useState(0)
  const count = Math.min(items.length, maxShown)
  const at = Math.min(picked, count - 1)
  useKeys({
    j: () => setPicked(Math.min(count - 1, at + 1)),
    k: () => setPicked(Math.max(0, at - 1)),
    Enter: () => {
      const id = items[at]?.agentId
      if (id !== undefined) void navigate({ to: '/fleet/$id', params: { id } })
    },
  })
  if (items.length === 0) {
    return (
      <p className="empty">
        Nothing. Checked breaches and critical events of 24 hours, suspensions without a confirmation, containments, the
        brake, drills, silent agents and open anomalies at{' '}
        {checkedAt > 0 ? <Time at={new Date(checkedAt).toISOString()} /> : 'no time yet'}.
      </p>
    )
  }
  return (
    <ul className="attention">
      {items.slice(0, maxShown).map((item, index) => (
        <li key={item.key} className={index === at ? 'at' : ''}>
          <SeverityMark severity={item.severity} />
          <div>
            <b>
              {item.agentId ? (
                <Link to="/fleet/$id" params={{ id: item.agentId }}>
                  {item.headline}
                </Link>
              ) : (
                item.headline
              )}
            </b>{' '}
            <Suspended agent={agents.get(item.agentId ?? '')} item={item} />
            <p className="quiet">
              <Time at={item.at} />
              {item.facts && ` · ${item.facts}`}
              {item.report !== undefined && (
                <>
                  {' · '}
                  <HostileText text={item.report} max={160} />
                </>
              )}
            </p>
          </div>
          <Actions
            item={item}
            agent={item.agentId === undefined ? undefined : agents.get(item.agentId)}
            isKeyed={index === at}
          />
        </li>
      ))}
      {items.length > maxShown && <li className="quiet">and {items.length - maxShown} more, none of them worse</li>}
    </ul>
  )
}
