import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import type { Containment } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { containmentQuery } from '../data/containments.ts'
import { AgentLinks } from '../parts/agent-link.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { EmptyState, Fault, Panel, Screen } from '../ui/panel.tsx'
import { hourMs } from '../ui/span.ts'
import { Time } from '../ui/time.tsx'
import { containmentHeading, nextSentence, selectorText } from './containment-texts.ts'
import { Figures, StateWord } from './progress.tsx'

const ResumeStagesDialog = lazyDialog(async () => (await import('./choose-dialog.tsx')).ResumeStagesDialog)

const route = getRouteApi('/inside/containments/$id')

/** Range of the evidence bundle: one hour before and after the containment; its agent if it has only one. */
const bundleOf = ({ selector, requested_at, completed_at }: Containment) => ({
  ...(selector.instances?.length === 1 ? { agent: selector.instances[0] } : {}),
  from: new Date(Date.parse(requested_at) - hourMs).toISOString(),
  to: new Date(Date.parse(completed_at ?? requested_at) + hourMs).toISOString(),
})

function Lead({ containment }: { containment: Containment }) {
  const {
    action,
    selector,
    tags_scope: scope,
    requested,
    requested_at,
    by,
    by_name,
    confirmed_by,
    confirmed_by_name,
    two_person,
  } = containment
  return (
    <>
      {action === 'suspend' ? 'Suspension' : 'Resume'} of {selectorText(selector, requested, scope)}, requested{' '}
      <Time at={requested_at} /> by <HostileText text={by_name ?? by} max={60} />
      {confirmed_by !== null && (
        <>
          , confirmed by <HostileText text={confirmed_by_name ?? confirmed_by} max={60} />
        </>
      )}
      {two_person && '; the resume requires two operators'}
    </>
  )
}

function Progress({ containment }: { containment: Containment }) {
  const { completed_at, reason, skipped } = containment
  return (
    <Panel
      title="Progress"
      note={
        completed_at !== null && (
          <>
            complete since <Time at={completed_at} />
          </>
        )
      }
    >
      <div className="inner">
        <p>
          <HostileText text={reason} />
        </p>
        <Figures containment={containment} />
        {skipped > 0 && (
          <p className="quiet">{counted(skipped, 'agent')} already changed or deleted by another operator.</p>
        )}
        <p>
          <b>Next:</b> {nextSentence(containment)}
        </p>
      </div>
    </Panel>
  )
}

/** One containment: its progress, the missing agents and the next step. */
export function ContainmentPage() {
  const { id } = route.useParams()
  const { data, error } = useQuery(containmentQuery(id))
  const [isOpen, setOpen] = useState(false)
  const list = <Link to="/containments">All containments</Link>
  if (!data) {
    return (
      <Screen title="Containment">
        <Fault of={error} />
        <p>{list}</p>
      </Screen>
    )
  }
  const { action, state, joined, missing, missing_count } = data
  const heading = containmentHeading(data)
  return (
    <Screen
      title={heading}
      heading={<span aria-live="polite">{heading}</span>}
      lead={<Lead containment={data} />}
      actions={
        <>
          <StateWord state={state} />
          {action === 'suspend' && <OperatorButton onClick={() => setOpen(true)}>Resume in stages…</OperatorButton>}
        </>
      }
    >
      <Progress containment={data} />
      {joined.length > 0 && (
        <Panel
          title="Registered during the suspension"
          note="They use a key of its agents and are suspended from the start."
        >
          <div className="inner">
            <AgentLinks ids={joined} />
          </div>
        </Panel>
      )}
      <Panel title="Not confirmed" note={missing_count.toLocaleString('en')}>
        {missing.length === 0 ? (
          <EmptyState>All agents confirmed.</EmptyState>
        ) : (
          <div className="inner">
            <AgentLinks ids={missing} count={missing_count} />
          </div>
        )}
      </Panel>
      <p className="chips">
        {list}
        <Link to="/incidents" search={bundleOf(data)}>
          Export evidence bundle
        </Link>
      </p>
      {isOpen && <ResumeStagesDialog containment={data} onClose={() => setOpen(false)} />}
    </Screen>
  )
}
