import { Link } from '@tanstack/react-router'
import type { ContainmentPlan } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { EnforcementPoints } from '../suspend/enforcement-points.tsx'
import { ReachLine } from '../suspend/reach-line.tsx'

const reasonWords = {
  offline: ['offline', 'it applies when they ask again'],
  no_control_stream: ['without a control stream', 'they learn of it by their next poll, within 30 seconds'],
  old_sdk: ['that never confirmed anything', 'an old SDK or another client: it may not listen, and cannot be proven'],
} as const
const reasons = ['offline', 'old_sdk', 'no_control_stream'] as const
const maxNamed = 5

/** Shows, before any change, which agents it would reach, how, and which it would not. */
export function Plan({ plan }: { plan: ContainmentPlan }) {
  const { action, paths, unreached, unreached_counts } = plan
  return (
    <ul className="reach" aria-label="What this reaches">
      {paths.stream > 0 && (
        <li>
          <ReachLine
            isReached
            what={`${counted(paths.stream, 'agent')} by control stream`}
            how="at once; each confirms for itself"
          />
        </li>
      )}
      {reasons
        .filter((reason) => unreached_counts[reason] > 0)
        .map((reason) => {
          const [what, how] = reasonWords[reason]
          const ids = unreached.filter((agent) => agent.reason === reason).map(({ id }) => id)
          const count = unreached_counts[reason]
          return (
            <li key={reason}>
              <ReachLine
                isReached={false}
                otherwise="Not reached at once"
                what={`${counted(count, 'agent')} ${what}`}
                how={how}
              />
              <span className="missing">
                {ids.slice(0, maxNamed).map((id) => (
                  <Link key={id} to="/fleet/$id" params={{ id }}>
                    {id}
                  </Link>
                ))}
                {count > maxNamed && <span className="quiet">and {count - maxNamed} more</span>}
              </span>
            </li>
          )
        })}
      <EnforcementPoints action={action} />
      {action === 'suspend' && (
        <li>
          <ReachLine
            isReached={false}
            what="Commands that are running already"
            how="not reached: end them on their hosts"
          />
        </li>
      )}
    </ul>
  )
}
