import { useNavigate } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { useEffect, useState } from 'react'
import { FleetStrip } from '../overview/fleet-strip.tsx'
import '../overview/overview.css'
import { useVerdict } from '../overview/use-verdict.ts'
import { HostileText } from '../parts/hostile-text.tsx'
import { SeverityMark, StatusMark } from '../parts/marks.tsx'
import { Time, timeText, useNow, useZone } from '../parts/time.tsx'
import { sentenceOf } from '../service/client.ts'
import { countsOf, type ShownStatus, shownStatus } from '../service/fleet-counts.ts'
import { useKeys } from '../shell/keys.ts'
import { useLiveData } from '../shell/live-data.ts'
import { LiveMark } from '../shell/live-mark.tsx'
import { useTitle } from '../shell/title.ts'
import './wallboard.css'

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
  const counts = isComplete ? countsOf(agents) : undefined
  const suspended = new Map<string | undefined, ShownStatus>(
    agents.flatMap((agent) => (agent.status === 'suspended' ? [[agent.id, shownStatus(agent)] as const] : [])),
  )
  const tiles: [name: string, value: number | undefined, tone: string][] = [
    ['active', counts?.active, ''],
    ['offline', counts?.offline, ''],
    ['suspended', counts?.suspended, 'violet'],
    ['breach, 24 h', stats?.breach, 'breach'],
    ['critical, 24 h', stats?.critical, 'critical'],
    ['warning, 24 h', stats?.warning, 'warning'],
  ]
  return (
    <main className={`wallboard ${isStale || fault ? 'stale' : ''}`}>
      <div className="line">
        <LiveMark />
        <span className="mono">
          {timeText(zone, now)} {zone === 'utc' ? 'UTC' : ''}
        </span>
      </div>
      <h1 aria-live="polite">{verdict}</h1>
      {(isStale || fault) && (
        <p className="then">
          What follows was true then. {fault ? <span className="fault">{sentenceOf(fault)}</span> : null}
        </p>
      )}
      <dl className="panel board-tiles">
        {tiles.map(([name, value, tone]) => (
          <div key={name}>
            <dd className={value ? tone : ''}>{value === undefined ? '…' : value.toLocaleString('en')}</dd>
            <dt>{name}</dt>
          </div>
        ))}
      </dl>
      {agents.length > 0 && (
        <section className="panel" aria-label={`Fleet of ${counted(agents.length, 'agent')}`} inert>
          <FleetStrip fleet={agents} troubled={troubled} />
        </section>
      )}
      <section className="panel board-queue" aria-label="Needs attention">
        {isComplete && items.length === 0 && <p>Nothing needs attention.</p>}
        <ul>
          {items.slice(0, maxItems).map((item) => (
            <li key={item.key}>
              <SeverityMark severity={item.severity} />
              <div>
                <b>
                  <HostileText text={item.headline} line />
                </b>
                <p>
                  {suspended.has(item.agentId) && item.kind !== 'unconfirmed' && (
                    <>
                      <StatusMark status={suspended.get(item.agentId)!} />
                      {' · '}
                    </>
                  )}
                  <Time at={item.at} />
                  {item.facts && ` · ${item.facts}`}
                  {item.report !== undefined && ' · '}
                  {item.report !== undefined && <HostileText text={item.report} line max={160} />}
                </p>
              </div>
            </li>
          ))}
        </ul>
        {items.length > maxItems && <p>and {items.length - maxItems} more</p>}
      </section>
      <p className="quiet foot">
        {isAwake ? 'The screen stays on.' : 'The screen may go dark: the browser does not keep it on here.'}
        <span className="end">Esc leaves</span>
      </p>
    </main>
  )
}
