import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Approval } from '../data/approvals.ts'
import { policiesQuery } from '../data/policies.ts'
import { AgentLink } from '../parts/agent-link.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { TextLines } from '../ui/json-text.tsx'
import { spanText } from '../ui/span.ts'
import { Time, useNow } from '../ui/time.tsx'

/** Who asks to call what. */
export function RequestHeading({ approval: { instance_id, tool } }: { approval: Approval }) {
  return (
    <>
      <AgentLink id={instance_id} /> asks to call <HostileText text={tool} max={100} />
    </>
  )
}

/** When a request arrived, and how long it waits. */
export function RequestTime({ approval: { requested_at, expires_at, asked } }: { approval: Approval }) {
  const leftMs = Date.parse(expires_at) - useNow()
  return (
    <>
      <Time at={requested_at} /> · {leftMs > 0 ? `denied in ${spanText(leftMs)} without an answer` : 'expired'}
      {asked > 1 && ` · asked ${asked.toLocaleString('en')} times`}
    </>
  )
}

/** The rule that asks, and why. */
export function RequestRule({ approval }: { approval: Approval }) {
  const { policy_id, policy_version, rule, why } = approval
  const { data } = useQuery(policiesQuery)
  const title = data?.policies.find(({ id }) => id === policy_id)?.title
  return (
    <>
      {title === undefined ? (
        'Policy'
      ) : (
        <Link to="/policies/$id" params={{ id: policy_id }} search={{ version: policy_version }}>
          <HostileText text={title} max={100} />
        </Link>
      )}{' '}
      v{policy_version}: <HostileText text={rule ?? 'default of the policy'} max={200} />
      {why !== null && (
        <>
          {' · '}
          <HostileText text={why} max={300} />
        </>
      )}
    </>
  )
}

/** Who approved a request that needs a second operator. */
export function Approvers({ approval: { approvals, approved_by, own } }: { approval: Approval }) {
  if (approvals === 1) return null
  const [first] = approved_by
  return (
    <p className="warning">
      Needs two operators
      {first && <>; approved by {own ? 'you' : <HostileText text={first.by_name ?? first.by} max={60} />}</>}.
    </p>
  )
}

/** The arguments as the agent sent them, without secrets. */
export function RequestArguments({ approval: { args } }: { approval: Approval }) {
  if (args === null) return <p className="quiet">The agent sent no arguments to show.</p>
  return <TextLines lines={args.split('\n')} />
}

/** Who decided; null while nobody has. */
export function DecidedBy({ approval: { denied_by, approved_by } }: { approval: Approval }) {
  const all = denied_by ? [denied_by] : approved_by
  return all.map(({ by, by_name }, index) => (
    <span key={by}>
      {index > 0 && ' and '}
      <HostileText text={by_name ?? by} max={60} />
    </span>
  ))
}
