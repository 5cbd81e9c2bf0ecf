import { useNavigate } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { useEffect, useState } from 'react'
import type { Agent } from '../data/fleet.ts'
import { countsOf } from '../data/fleet-counts.ts'
import type { AttentionItem } from '../overview/attention.ts'
import { FleetStrip } from '../overview/fleet-strip.tsx'
import { ItemFacts } from '../overview/item-facts.tsx'
import { useVerdict } from '../overview/use-verdict.ts'
import { SeverityMark } from '../parts/marks.tsx'
import { useLiveData } from '../shell/live-data.ts'
import { LiveMark } from '../shell/live-mark.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Panel, Stat, Stats, useTitle } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'
import { timeText, useNow, useZone } from '../ui/time.tsx'
import css from './wallboard.module.css'

/** As many items as can be read across a room. */
const maxItems = 5

/** Keeps the screen on while the page is visible. Browsers allow this only over HTTPS and on localhost. */
function useAwake(): boolean {
  const [isAwake, setAwake] = useState(false)
  useEffect(() => {
    let lock: WakeLockSentinel | undefined
    let isOver = false
    async function ask() {
      if (document.visibilityState !== 'visible' || !('wakeLock' in navigator)) return
      try {
        const given = await navigator.wakeLock.request('screen')
        if (isOver) return void given.release()
        lock = given
        // The browser releases the lock when the page is hidden; it is requested again when the page is visible.
        given.addEventListener('release', () => setAwake(false))
        setAwake(true)
      } catch {
        setAwake(false)
      }
    }
    const again = () => void ask()
    document.addEventListener('visibilitychange', again)
    again()
    return () => {
      isOver = true
      document.removeEventListener('visibilitychange', again)
      void lock?.release()
    }
  }, [])
  return isAwake
}

function Queue({ items, agents }: { items: readonly AttentionItem[]; agents: readonly Agent[] }) {
  return (
    <Panel label="Needs attention" className={css.queue}>
      {items.length === 0 && <p>Nothing needs attention.</p>}
      <ul>
        {items.slice(0, maxItems).map((item) => (
          <li key={item.key}>
            <SeverityMark severity={item.severity} />
            <div>
              <b>
                <HostileText text={item.headline} line />
              </b>
              <ItemFacts item={item} agent={agents.find(({ id }) => id === item.agentId)} line />
            </div>
          </li>
        ))}
      </ul>
      {items.length > maxItems && <p>{items.length - maxItems} more</p>}
    </Panel>
  )
}

/** The overview for a screen on a wall: readable from afar, without controls. */
export function Wallboard() {
  const { agents, stats, items, verdict, isComplete, isStale, fault, troubled } = useVerdict()
  const navigate = useNavigate()
  const now = useNow()
  const zone = useZone()
  const isAwake = useAwake()
  useLiveData()
  useTitle(verdict)
  useKeys({ Escape: () => void navigate({ to: '/' }) })
  useEffect(
    () => () => {
      if (document.fullscreenElement) void document.exitFullscreen()
    },
    [],
  )
  const tiles = { ...(isComplete && countsOf(agents)), ...stats }
  return (
    <main className={`${css.wallboard} ${isStale || fault ? css.stale : ''}`}>
      <div className={css.line}>
        <LiveMark />
        <span className="mono">
          {timeText(zone, now)} {zone === 'utc' ? 'UTC' : ''}
        </span>
      </div>
      <h1 aria-live="polite">{verdict}</h1>
      {(isStale || fault) && (
        <div className={css.line}>
          Data may be outdated. <Fault of={fault} />
        </div>
      )}
      <div className={css.tiles}>
        <Stats>
          {(['active', 'offline', 'suspended', 'breach', 'critical', 'warning'] as const).map((name, index) => {
            const value = tiles[name]
            const kind = value && name !== 'active' && name !== 'offline' ? name : undefined
            return (
              <Stat
                key={name}
                name={index < 3 ? name : `${name}, 24 h`}
                value={value === undefined ? '…' : value.toLocaleString('en')}
                kind={kind}
              />
            )
          })}
        </Stats>
      </div>
      {agents.length > 0 && (
        <div className={css.fleet} inert>
          <Panel label={`Fleet of ${counted(agents.length, 'agent')}`}>
            <FleetStrip fleet={agents} troubled={troubled} />
          </Panel>
        </div>
      )}
      {isComplete && <Queue items={items} agents={agents} />}
      <p className={`${css.foot} quiet`}>
        {isAwake ? 'The screen stays on.' : 'The screen may go dark: this browser cannot keep it on.'}
        <span>Esc to leave</span>
      </p>
    </main>
  )
}
