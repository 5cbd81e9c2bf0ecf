import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { pendingApprovalsQuery } from '../data/approvals.ts'
import { HostileText } from '../ui/hostile-text.tsx'
import { Panel } from '../ui/panel.tsx'
import css from './approvals.module.css'
import { Decide } from './decide.tsx'
import { Approvers, RequestHeading, RequestRule, RequestTime } from './request.tsx'

/** More would push the fleet off a phone's screen. */
const maxShown = 3

/** The calls that wait for a person; nothing while there are none. */
export function Waiting() {
  const { data } = useQuery(pendingApprovalsQuery)
  const requests = data?.approvals ?? []
  const count = data?.pending ?? 0
  if (requests.length === 0) return null
  return (
    <Panel
      title="Waiting for approval"
      note={count.toLocaleString('en')}
      end={
        <Link to="/approvals" className="quiet">
          Open approvals <kbd>g v</kbd>
        </Link>
      }
    >
      <ul className={`lines ${css.queue}`}>
        {requests.slice(0, maxShown).map((approval) => (
          <li key={approval.id}>
            <div className={css.what}>
              <b>
                <RequestHeading approval={approval} />
              </b>
              <p>
                <RequestTime approval={approval} /> · <RequestRule approval={approval} /> ·{' '}
                <Link to="/approvals/$id" params={{ id: approval.id }}>
                  Open
                </Link>
              </p>
              <Approvers approval={approval} />
              {approval.args !== null && (
                <p className={`mono ${css.arguments}`}>
                  <HostileText text={approval.args} max={240} line />
                </p>
              )}
            </div>
            <Decide approval={approval} />
          </li>
        ))}
      </ul>
      {count > maxShown && <p className="inner quiet">and {(count - maxShown).toLocaleString('en')} more</p>}
    </Panel>
  )
}
