import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useNavigate } from '@tanstack/react-router'
import { lazy, Suspense, useEffect, useState } from 'react'
import { useLiveData } from '../data/apply-live.ts'
import { summaryQuery } from '../data/fleet.ts'
import { sessionQuery, signOut } from '../data/session.ts'
import { Button, buttonClass } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog, usePreload } from '../ui/lazy-dialog.tsx'
import { Fault } from '../ui/panel.tsx'
import { commandKey, holdTyped, takeTyped, useKeys } from '../ui/shortcuts.ts'
import { switchZone, useZone } from '../ui/time.tsx'
import { AwayNotice, ContainmentBanner } from './banners.tsx'
import { LiveMark } from './live-mark.tsx'
import { openWallboard } from './open-wallboard.ts'
import { places, wallboard } from './places.ts'
import css from './shell.module.css'
import { useTheme } from './theme.ts'
import { WardlineMark } from './wardline-mark.tsx'

// Loaded when they open, so that the first screen does not wait for them.
const loadPalette = async () => (await import('./palette.tsx')).Palette
const Palette = lazyDialog(loadPalette)
const KeyHelp = lazyDialog(async () => (await import('./key-help.tsx')).KeyHelp)
const Notifier = lazy(async () => ({ default: (await import('./notifier.tsx')).Notifier }))
const Toaster = lazy(async () => ({ default: (await import('../ui/toaster.tsx')).Toaster }))

/** A phone has room for four; the others are under "More". */
const footPlaces: readonly string[] = ['/', '/fleet', '/events', '/alerts']

/** Number of suspended agents. */
function SuspendedMark() {
  const { data } = useQuery(summaryQuery())
  const suspended = data?.state.counts.suspended ?? 0
  if (suspended === 0) return null
  const number = suspended.toLocaleString('en')
  return (
    <span className={`${css.mark} suspended`} title={`${number} suspended`}>
      {number}
      <span className="only-read"> suspended</span>
    </span>
  )
}

/** Frame of all screens that require sign-in. */
export function Shell() {
  const client = useQueryClient()
  const navigate = useNavigate()
  const { data: session } = useQuery(sessionQuery)
  const [open, setOpen] = useState<'palette' | 'keys' | undefined>()
  const [fault, setFault] = useState<unknown>()
  const [theme, changeTheme] = useTheme()
  const zone = useZone()
  useLiveData()
  usePreload(loadPalette)

  const close = () => setOpen(undefined)
  function search() {
    holdTyped(close)
    setOpen('palette')
  }
  // A palette that is closed, or could not be loaded, must not keep the keys.
  useEffect(() => (open === 'palette' ? () => void takeTyped() : undefined), [open])

  async function leave() {
    try {
      const atProvider = await signOut()
      client.clear()
      if (atProvider !== undefined) return location.assign(atProvider)
      await navigate({ to: '/login' })
    } catch (problem) {
      setFault(problem)
    }
  }

  const go = Object.fromEntries(places.map(({ to, key }) => [`g ${key}`, () => void navigate({ to })]))
  useKeys({
    ...go,
    [`g ${wallboard.key}`]: () => openWallboard(navigate),
    'mod k': search,
    '?': () => setOpen('keys'),
    t: switchZone,
  })

  const links = places.map(({ to, name }) => (
    <Link key={to} to={to} activeOptions={{ exact: to === '/' }} activeProps={{ 'aria-current': 'page' }}>
      {name}
      {to === '/fleet' && <SuspendedMark />}
    </Link>
  ))
  return (
    <div className={css.shell}>
      <a className={css.skip} href="#main">
        Skip to content
      </a>
      <div className={css.side}>
        <Link to="/" className={css.brand}>
          <WardlineMark /> Wardline
        </Link>
        <nav aria-label="Screens">{links}</nav>
        <div className={`${css.who} quiet`}>
          {session && (
            <>
              <span>
                Signed in as <HostileText text={session.name} max={60} />
              </span>
              <span>{session.scope}</span>
              {session.tags && (
                <span>
                  only <HostileText text={session.tags.join(', ')} max={100} />
                </span>
              )}
            </>
          )}
          <Link to="/account" className={buttonClass('plain')}>
            Your sessions
          </Link>
          <Button kind="plain" shortcut={`${commandKey}K`} onClick={search}>
            Search
          </Button>
          <Button kind="plain" shortcut="?" onClick={() => setOpen('keys')}>
            Shortcuts
          </Button>
          <Button kind="plain" onClick={leave}>
            Sign out
          </Button>
          <Fault of={fault} />
        </div>
      </div>
      <div className={css.body}>
        <div className={css.top}>
          <LiveMark />
          <Button kind="plain" shortcut="t" onClick={switchZone}>
            {zone === 'utc' ? 'UTC' : 'Local time'}
          </Button>
          <Button kind="plain" onClick={changeTheme}>
            Theme: {theme}
          </Button>
        </div>
        <AwayNotice />
        <ContainmentBanner />
        <main id="main" tabIndex={-1}>
          <Outlet />
        </main>
      </div>
      <nav className={css.footBar} aria-label="Screens">
        {links.filter(({ props }) => footPlaces.includes(props.to))}
        <Button kind="plain" onClick={search}>
          More
        </Button>
      </nav>
      <Suspense>
        <Toaster />
        <Notifier />
      </Suspense>
      {open === 'palette' && (
        <Palette onClose={close} onSignOut={leave} onKeys={() => setOpen('keys')} onTheme={changeTheme} />
      )}
      {open === 'keys' && <KeyHelp onClose={close} />}
    </div>
  )
}
