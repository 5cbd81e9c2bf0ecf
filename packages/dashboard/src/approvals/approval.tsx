import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { approvalQuery } from '../data/approvals.ts'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Panel, Screen } from '../ui/panel.tsx'
import { Facts } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { plainText } from '../ui/unseen-characters.ts'
import { StateOf } from './approvals.tsx'
import { Decide } from './decide.tsx'
import { Approvers, DecidedBy, RequestArguments, RequestHeading, RequestRule, RequestTime } from './request.tsx'

const route = getRouteApi('/inside/approvals/$id')

/** One request, as an alert links to it: what is asked, and the decision. */
export function ApprovalPage() {
  const { id } = route.useParams()
  const { data, error } = useQuery(approvalQuery(id))
  const all = <Link to="/approvals">All approvals</Link>
  if (!data) {
    return (
      <Screen title="Approval" lead={all}>
        <Fault of={error} />
      </Screen>
    )
  }
  const { state, instance_id, tool, session_id, decided_at, granted_at, reason, args_sha256 } = data
  return (
    <Screen
      title={`${instance_id} asks to call ${plainText(tool)}`}
      heading={<RequestHeading approval={data} />}
      lead={
        <>
          {state === 'pending' ? <RequestTime approval={data} /> : <StateOf state={state} />} · {all}
        </>
      }
    >
      <Approvers approval={data} />
      {state === 'pending' && <Decide approval={data} isKeyed />}
      <Panel title="Arguments" note="as the agent sent them, without secrets">
        <div className="inner">
          <RequestArguments approval={data} />
        </div>
      </Panel>
      <Panel title="Details">
        <Facts
          facts={[
            ['Rule', <RequestRule key="rule" approval={data} />],
            ['Session', session_id !== null && <HostileText text={session_id} max={120} />],
            ['SHA-256 of the arguments', args_sha256, true],
            ['Decided', decided_at !== null && <Time at={decided_at} />],
            ['By', decided_at !== null && <DecidedBy key="by" approval={data} />],
            ['Call made', granted_at !== null && <Time at={granted_at} />],
            ['Reason', reason !== null && <HostileText text={reason} max={500} />],
          ]}
        />
      </Panel>
    </Screen>
  )
}
