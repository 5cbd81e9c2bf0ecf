import { useNavigate } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { useEffect, useState } from 'react'
import { useLiveData } from '../data/apply-live.ts'
import { moreText, QueueLine } from '../overview/attention-queue.tsx'
import { Figures } from '../overview/figures.tsx'
import { FleetStrip } from '../overview/fleet-strip.tsx'
import { useVerdict } from '../overview/use-verdict.ts'
import { LiveMark } from '../shell/live-mark.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Panel, useTitle } from '../ui/panel.tsx'
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

function Queue({ items, open }: Pick<ReturnType<typeof useVerdict>, 'items' | 'open'>) {
  return (
    <Panel label="Needs attention" className={css.queue}>
      {items.length === 0 && <p>Nothing needs attention.</p>}
      <ul className="lines">
        {items.slice(0, maxItems).map((item) => (
          <QueueLine key={item.key} item={item} heading={<HostileText text={item.headline} line />} isCut />
        ))}
      </ul>
      {items.length > maxItems && <p>{moreText(open, maxItems)}</p>}
    </Panel>
  )
}

/** The overview for a screen on a wall: readable from afar, without controls. */
export function Wallboard() {
  const { marks, agents, counts, stats, items, verdict, isComplete, isStale, fault, troubled, isCut, open } =
    useVerdict()
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
        <Figures counts={counts} stats={stats} />
      </div>
      {counts && counts.all > 0 && (
        <div className={css.fleet} inert>
          <Panel label={`Fleet of ${counted(counts.all, 'agent')}`}>
            <FleetStrip marks={marks} agents={agents} troubled={troubled} isCut={isCut} />
          </Panel>
        </div>
      )}
      {isComplete && <Queue items={items} open={open} />}
      <p className={`${css.foot} quiet`}>
        {isAwake ? 'The screen stays on.' : 'The screen may go dark: this browser cannot keep it on.'}
        <span>Esc to leave</span>
      </p>
    </main>
  )
}
