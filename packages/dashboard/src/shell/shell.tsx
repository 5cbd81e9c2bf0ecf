import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { switchZone, useZone } from '../parts/time.tsx'
import { sentenceOf } from '../service/client.ts'
import { sessionQuery, signOut } from '../service/session.ts'
import { AwayNotice } from './away-notice.tsx'
import { ContainmentBanner } from './containment-banner.tsx'
import { KeyHelp } from './key-help.tsx'
import { useKeys } from './keys.ts'
import { useLiveData } from './live-data.ts'
import { LiveMark } from './live-mark.tsx'
import { Palette } from './palette.tsx'
import { openWallboard, places, wallboard } from './places.ts'
import './shell.css'
import { useTheme } from './theme.ts'
import { WardlineMark } from './wardline-mark.tsx'

/** A phone has room for four; the others are under "More". */
const footPlaces: readonly string[] = ['/', '/fleet', '/events', '/alerts']

/** Frame of all screens that require sign-in. */
export function Shell() {
  const client = useQueryClient()
  const navigate = useNavigate()
  const { data: session } = useQuery(sessionQuery)
  const [open, setOpen] = useState<'palette' | 'keys' | undefined>()
  const [fault, setFault] = useState<string>()
  const [theme, changeTheme] = useTheme()
  const zone = useZone()
  useLiveData()

  async function leave() {
    try {
      await signOut()
      client.clear()
      await navigate({ to: '/login' })
    } catch (problem) {
      setFault(sentenceOf(problem))
    }
  }

  const go = Object.fromEntries(places.map(({ to, key }) => [`g ${key}`, () => void navigate({ to })]))
  useKeys({
    ...go,
    [`g ${wallboard.key}`]: () => openWallboard(navigate),
    'mod k': () => setOpen('palette'),
    '?': () => setOpen('keys'),
    t: switchZone,
  })

  const links = places.map(({ to, name }) => (
    <Link key={to} to={to} activeOptions={{ exact: to === '/' }} activeProps={{ 'aria-current': 'page' }}>
      {name}
    </Link>
  ))
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <div className="side">
        <Link to="/" className="brand">
          <WardlineMark /> Wardline
        </Link>
        <nav aria-label="Screens">{links}</nav>
        <div className="who quiet">
          {session && (
            <>
              <span>
                Signed in as <HostileText text={session.name} max={60} />
              </span>
              <span>{session.scope}</span>
            </>
          )}
          <button type="button" className="plain" onClick={() => setOpen('palette')}>
            Search <kbd>⌘K</kbd>
          </button>
          <button type="button" className="plain" onClick={() => setOpen('keys')}>
            Shortcuts <kbd>?</kbd>
          </button>
          <button type="button" className="plain" onClick={leave}>
            Sign out
          </button>
          {fault && (
            <p role="alert" className="fault">
              {fault}
            </p>
          )}
        </div>
      </div>
      <div className="body">
        <div className="top">
          <LiveMark />
          <button type="button" className="plain" onClick={switchZone}>
            {zone === 'utc' ? 'UTC' : 'Local time'} <kbd>t</kbd>
          </button>
          <button type="button" className="plain" onClick={changeTheme}>
            Theme: {theme}
          </button>
        </div>
        <AwayNotice />
        <ContainmentBanner />
        <main id="main" tabIndex={-1}>
          <Outlet />
        </main>
      </div>
      <nav className="foot-bar" aria-label="Screens">
        {links.filter(({ props }) => footPlaces.includes(props.to))}
        <button type="button" className="plain" onClick={() => setOpen('palette')}>
          More
        </button>
      </nav>
      {open === 'palette' && (
        <Palette
          onClose={() => setOpen(undefined)}
          onSignOut={leave}
          onKeys={() => setOpen('keys')}
          onTheme={changeTheme}
        />
      )}
      {open === 'keys' && <KeyHelp onClose={() => setOpen(undefined)} />}
    </div>
  )
}
