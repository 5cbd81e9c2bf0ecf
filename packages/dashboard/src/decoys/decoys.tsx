import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { limits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useRef, useState } from 'react'
import { FilterField } from '../parts/filter-field.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import '../parts/list.css'
import { Time, useNow } from '../parts/time.tsx'
import { sentenceOf } from '../service/client.ts'
import { type Decoy, decoysQuery, kindOf, worstFirst } from '../service/decoys.ts'
import { useMayOperate } from '../service/session.ts'
import { useKeys } from '../shell/keys.ts'
import { useTitle } from '../shell/title.ts'
import { DecoyDrawer } from './decoy-drawer.tsx'
import './decoys.css'
import { IgnoreRules } from './ignore-rules.tsx'
import { PlantDialog } from './plant-dialog.tsx'
import { type DecoyFilter, type DecoySearch, decoyFilters } from './search.ts'

const route = getRouteApi('/inside/decoys')

const filterNames: Record<DecoyFilter, string> = {
  issued: 'Issued',
  planted: 'Planted',
  tripped: 'Tripped',
  retired: 'Retired',
  keys: 'Keys',
  paths: 'Paths',
}
const isShown: Record<DecoyFilter, (decoy: Decoy) => boolean> = {
  issued: ({ details }) => details.state === 'issued',
  planted: ({ details }) => details.state === 'planted',
  tripped: ({ details }) => details.state === 'tripped',
  retired: ({ details }) => details.state === 'retired',
  keys: ({ type }) => type === 'api_key',
  paths: ({ type }) => type === 'file_path',
}
/** Rows shown at first. More would slow down each refresh. */
const firstRows = 200

const dayMs = 86_400_000

/** Describes the state of the decoys in one sentence. */
function headingOf(decoys: readonly Decoy[], now: number): string {
  if (decoys.length === 0) return 'No decoy is planted.'
  const all = counted(decoys.length, 'decoy')
  const lately = decoys.filter(({ details }) => now - Date.parse(details.lastHitAt ?? '') < dayMs).length
  if (lately > 0) return `${lately.toLocaleString('en')} of ${all} touched in 24 h.`
  return decoys.some(({ details }) => details.hitCount > 0)
    ? `${all}, none touched in 24 h.`
    : `${all}, none touched so far.`
}

const hitsText = (count: number): string =>
  count >= limits.listedHits ? `${count.toLocaleString('en')} or more` : count.toLocaleString('en')

function withText(decoys: readonly Decoy[], q: string | undefined): Decoy[] {
  const words = (q ?? '').toLowerCase()
  return decoys.filter((decoy) =>
    [decoy.details.label, decoy.details.path, decoy.details.instanceId, kindOf(decoy)]
      .join('\n')
      .toLowerCase()
      .includes(words),
  )
}

function DecoyRow({ decoy, isAt }: { decoy: Decoy; isAt: boolean }) {
  const { instanceId, label, path, state, leakedOutside, hitCount, firstHitAt, lastHitAt } = decoy.details
  return (
    <tr className={isAt ? 'at' : ''}>
      <td>
        <Link from="/decoys" search={(before) => ({ ...before, open: decoy.id })} replace>
          <HostileText text={label || (path ?? kindOf(decoy))} max={120} line />
        </Link>
        <span className="under">
          {kindOf(decoy)} · {state}
          {leakedOutside && <b className="breach"> · leaked outside</b>}
          <span className="only-narrow"> · {instanceId}</span>
          {path !== undefined && (
            <>
              {' · '}
              <span className="mono">
                <HostileText text={path} max={120} />
              </span>
            </>
          )}
        </span>
      </td>
      <td className="only-wide">
        <Link to="/fleet/$id" params={{ id: instanceId }} className="quiet">
          {instanceId}
        </Link>
      </td>
      <td className={`number ${hitCount > 0 ? 'breach' : ''}`}>{hitsText(hitCount)}</td>
      <td className="number only-wide">{firstHitAt === null ? '–' : <Time at={firstHitAt} />}</td>
      <td className="number">{lastHitAt === null ? '–' : <Time at={lastHitAt} />}</td>
      <td className="number only-wide">
        <Time at={decoy.createdAt} />
      </td>
    </tr>
  )
}

export function Decoys() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { data, error } = useQuery(decoysQuery)
  const now = useNow()
  const mayOperate = useMayOperate()
  const [text, setText] = useState(search.q ?? '')
  const [at, setAt] = useState(0)
  const [isWhole, setWhole] = useState(false)
  const filter = useRef<HTMLInputElement>(null)

  const all = data ?? []
  const found = withText(all, search.q)
  const matching = found.filter(search.show === undefined ? () => true : isShown[search.show]).sort(worstFirst)
  const shown = isWhole ? matching : matching.slice(0, firstRows)
  const title = data ? headingOf(all, now) : 'Decoys'
  useTitle(title)

  const show = (change: Partial<DecoySearch>) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  const plant = () => show({ plant: 'new' })
  useKeys({
    '/': () => filter.current?.focus(),
    j: () => setAt(Math.min(shown.length - 1, at + 1)),
    k: () => setAt(Math.max(0, at - 1)),
    Enter: () => shown[at] && show({ open: shown[at].id }),
    n: () => mayOperate && plant(),
  })
  return (
    <div className="rows">
      <div>
        <div className="head">
          <h1 aria-live="polite">{title}</h1>
          <span className="end">
            <button
              type="button"
              className="go"
              disabled={!mayOperate}
              title={mayOperate ? undefined : 'Your key has scope viewer: only operators and admins plant decoys'}
              onClick={plant}
            >
              Plant a decoy{!mayOperate && <span className="only-read"> (needs a key of scope operator)</span>}{' '}
              <kbd>n</kbd>
            </button>
          </span>
        </div>
        <p className="quiet lead">
          A decoy is a key or a path that no agent has a reason to use: who touches it was taken over, or searches where
          it should not.
        </p>
      </div>
      {error && (
        <p role="alert" className="fault">
          {sentenceOf(error)}
        </p>
      )}
      {all.length > 0 && (
        <>
          <div className="chips">
            <FilterField
              field={filter}
              by="label, path, kind or agent"
              value={text}
              onChange={(next) => {
                setText(next)
                setAt(0)
                show({ q: next || undefined })
              }}
            />
            <button
              type="button"
              className="chip"
              aria-pressed={search.show === undefined}
              onClick={() => show({ show: undefined })}
            >
              All <b>{found.length.toLocaleString('en')}</b>
            </button>
            {decoyFilters.map((name) => (
              <button
                key={name}
                type="button"
                className="chip"
                aria-pressed={search.show === name}
                onClick={() => show({ show: search.show === name ? undefined : name })}
              >
                {filterNames[name]} <b>{found.filter(isShown[name]).length.toLocaleString('en')}</b>
              </button>
            ))}
          </div>
          <section className="panel list-panel" aria-label="Decoys, the last touched first">
            <table className="list">
              <thead>
                <tr>
                  <th>decoy</th>
                  <th className="only-wide">agent</th>
                  <th>hits</th>
                  <th className="only-wide">first hit</th>
                  <th>last hit</th>
                  <th className="only-wide">issued</th>
                </tr>
              </thead>
              <tbody>
                {shown.map((decoy, index) => (
                  <DecoyRow key={decoy.id} decoy={decoy} isAt={index === at} />
                ))}
              </tbody>
            </table>
            {matching.length === 0 && <p className="empty">No decoy matches.</p>}
            {shown.length < matching.length && (
              <p className="empty">
                {counted(matching.length - shown.length, 'decoy')} more are not shown.{' '}
                <button type="button" onClick={() => setWhole(true)}>
                  Show all {matching.length.toLocaleString('en')}
                </button>
              </p>
            )}
          </section>
        </>
      )}
      {data && all.length === 0 && (
        <section className="panel" aria-label="How decoys work">
          <p className="empty">
            Plant one where an agent works, for example a key in its <code>.env</code>. The SDK, the hooks and the MCP
            proxy compare every call with the decoys: a call that touches one is denied, and shows here within a second.
          </p>
        </section>
      )}
      {data && <IgnoreRules mayOperate={mayOperate} />}
      {search.open !== undefined && (
        <DecoyDrawer id={search.open} mayDelete={mayOperate} onClose={() => show({ open: undefined })} />
      )}
      {search.plant !== undefined && mayOperate && (
        <PlantDialog
          preset={search.plant}
          agent={search.agent}
          onClose={() => show({ plant: undefined, agent: undefined })}
        />
      )}
    </div>
  )
}
