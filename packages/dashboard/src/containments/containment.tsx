import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import type { Containment } from '@wardline/contract'
import { useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { hourMs } from '../parts/span.ts'
import { Time } from '../parts/time.tsx'
import { sentenceOf } from '../service/client.ts'
import { containmentQuery } from '../service/containments.ts'
import { useMayOperate } from '../service/session.ts'
import { useTitle } from '../shell/title.ts'
import { ResumeStagesDialog } from './choose-dialog.tsx'
import { containmentHeading, nextSentence, selectorText, stateWords } from './containment-texts.ts'
import './containments.css'
import { Figures } from './figures.tsx'

const route = getRouteApi('/inside/containments/$id')

/** Range of the evidence bundle: one hour before and after the containment; its agent if it has only one. */
const bundleOf = ({ selector, requested_at, completed_at }: Containment) => ({
  ...(selector.instances?.length === 1 ? { agent: selector.instances[0] } : {}),
  from: new Date(Date.parse(requested_at) - hourMs).toISOString(),
  to: new Date(Date.parse(completed_at ?? requested_at) + hourMs).toISOString(),
})

/** One containment: its progress, the missing agents and the next step. */
export function ContainmentPage() {
  const { id } = route.useParams()
  const mayOperate = useMayOperate()
  const { data, error } = useQuery(containmentQuery(id))
  const [isOpen, setOpen] = useState(false)
  const heading = data ? `${containmentHeading(data)}.` : 'Containment'
  useTitle(heading)
  if (!data) {
    return (
      <div className="rows">
        <h1>Containment</h1>
        {error && (
          <p role="alert">
            <HostileText text={sentenceOf(error)} max={600} />
          </p>
        )}
        <p>
          <Link to="/containments">Open all containments</Link>
        </p>
      </div>
    )
  }
  const { action, state, selector, requested, skipped, joined, missing, missing_count, two_person, confirmed_by } = data
  return (
    <div className="rows">
      <div>
        <div className="head">
          <h1 aria-live="polite">{heading}</h1>
          <span className={`containment-state ${state}`}>{stateWords[state]}</span>
          {action === 'suspend' && (
            <span className="end">
              <button
                type="button"
                disabled={!mayOperate}
                title={mayOperate ? undefined : 'Needs a key of scope operator'}
                onClick={() => setOpen(true)}
              >
                Resume in stages…
              </button>
            </span>
          )}
        </div>
        <p className="quiet lead">
          {action === 'suspend' ? 'Suspension' : 'Resume'} of {selectorText(selector, requested)}, requested{' '}
          <Time at={data.requested_at} /> by <HostileText text={data.by_name ?? data.by} max={60} />
          {confirmed_by !== null && `, confirmed by a second operator (key ${confirmed_by})`}
          {two_person && '; resuming these agents takes two operators'}
        </p>
      </div>
      <section className="panel" aria-labelledby="progress">
        <header>
          <h2 id="progress">Progress</h2>
          {data.completed_at !== null && (
            <span className="quiet">
              complete <Time at={data.completed_at} />
            </span>
          )}
        </header>
        <div className="inner">
          <p>
            <HostileText text={data.reason} />
          </p>
          <Figures containment={data} />
          {skipped > 0 && (
            <p className="quiet">{skipped} were changed or deleted by another operator before it was their turn.</p>
          )}
          <p>
            <b>What happens next.</b> {nextSentence(data)}
          </p>
        </div>
      </section>
      {joined.length > 0 && (
        <section className="panel" aria-labelledby="joined">
          <header>
            <h2 id="joined">Registered while it held</h2>
            <span className="quiet">with a key of its agents; suspended from the start</span>
          </header>
          <p className="inner missing">
            {joined.map((agent) => (
              <Link key={agent} to="/fleet/$id" params={{ id: agent }}>
                {agent}
              </Link>
            ))}
          </p>
        </section>
      )}
      <section className="panel" aria-labelledby="missing">
        <header>
          <h2 id="missing">Not confirmed</h2>
          <span className="quiet">{missing_count.toLocaleString('en')}</span>
        </header>
        {missing.length === 0 ? (
          <p className="empty">Nobody: every agent of it confirmed.</p>
        ) : (
          <p className="inner missing">
            {missing.map((agent) => (
              <Link key={agent} to="/fleet/$id" params={{ id: agent }}>
                {agent}
              </Link>
            ))}
            {missing_count > missing.length && <span className="quiet">and {missing_count - missing.length} more</span>}
          </p>
        )}
      </section>
      <p className="chips">
        <Link to="/containments">Open all containments</Link>
        <Link to="/incidents" search={bundleOf(data)}>
          Export a bundle of evidence
        </Link>
      </p>
      {isOpen && <ResumeStagesDialog containment={data} onClose={() => setOpen(false)} />}
    </div>
  )
}
