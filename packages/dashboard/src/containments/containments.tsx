import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import type { ContainmentSummary } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { HostileText } from '../parts/hostile-text.tsx'
import '../parts/list.css'
import { Time } from '../parts/time.tsx'
import { sentenceOf } from '../service/client.ts'
import { containmentsQuery } from '../service/containments.ts'
import { fleetQuery, refreshMs } from '../service/fleet.ts'
import { openContainments } from '../service/open-containments.ts'
import { useTitle } from '../shell/title.ts'
import { Brake } from './brake.tsx'
import { containmentHeading, selectorText, stateWords } from './containment-texts.ts'
import './containments.css'
import { Drills } from './drills.tsx'
import { ResumeRequests } from './resume-requests.tsx'
import { StageFigures } from './stage-figures.tsx'

const route = getRouteApi('/inside/containments')

function verdictOf(open: readonly ContainmentSummary[] | undefined): string {
  if (!open) return 'Containments'
  const moving = open.filter(({ state }) => state === 'in_progress')
  if (moving.length > 1) return `${counted(moving.length, 'containment')} are in progress.`
  const [first] = moving.length > 0 ? moving : open
  if (first) return `${containmentHeading(first)}.`
  return 'No containment is in progress.'
}

function List({ containments }: { containments: readonly ContainmentSummary[] }) {
  return (
    <table className="list stack">
      <thead>
        <tr>
          <th>requested</th>
          <th>what</th>
          <th>state</th>
          <th>confirmed</th>
          <th>proven</th>
          <th className="only-wide">by</th>
        </tr>
      </thead>
      <tbody>
        {containments.map((containment) => {
          const { id, action, state, requested, selector, reason, confirmed, proven, by, by_name } = containment
          return (
            <tr key={id}>
              <td>
                <Link to="/containments/$id" params={{ id }}>
                  <Time at={containment.requested_at} />
                </Link>
              </td>
              <td className="what">
                {action === 'suspend' ? 'Suspend' : 'Resume'} {counted(requested, 'agent')}:{' '}
                {selectorText(selector, requested)}
                <span className="under">
                  <HostileText text={reason} max={120} />
                </span>
              </td>
              <td className={`containment-state ${state}`}>{stateWords[state]}</td>
              <td className="number">
                {confirmed} of {requested}
                <span className="only-narrow"> confirmed</span>
              </td>
              <td className="number">
                {action === 'suspend' ? `${proven} of ${requested}` : ''}
                {action === 'suspend' && <span className="only-narrow"> proven</span>}
              </td>
              <td className="only-wide">
                <HostileText text={by_name ?? by} max={60} />
              </td>
            </tr>
          )
        })}
      </tbody>
    </table>
  )
}

/** Lists containments and drills. */
export function Containments() {
  const { drill } = route.useSearch()
  const { data, error } = useQuery({ ...containmentsQuery, refetchInterval: refreshMs })
  const { data: fleet } = useQuery(fleetQuery)
  const open = data && fleet && openContainments(data.containments, fleet)
  const verdict = verdictOf(open)
  useTitle(verdict)
  return (
    <div className="rows">
      <h1 aria-live="polite">{verdict}</h1>
      {error && (
        <p role="alert" className="fault">
          {sentenceOf(error)}
        </p>
      )}
      <ResumeRequests requests={data?.resume_requests ?? []} />
      <section className="panel list-panel" aria-labelledby="list">
        <header>
          <h2 id="list">Containments</h2>
          <span className="quiet">newest first</span>
          <span className="end">
            <Link to="/fleet" className="button">
              Open the fleet
            </Link>
          </span>
        </header>
        {data && data.containments.length > 0 && <List containments={data.containments} />}
        {data?.containments.length === 0 && (
          <p className="empty">
            None yet. In the fleet, agents are suspended by tag, by hand or all together; each such request stands here.
          </p>
        )}
      </section>
      <Brake />
      <StageFigures />
      <Drills open={drill} />
    </div>
  )
}
