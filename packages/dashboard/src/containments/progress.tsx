import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ContainmentSummary } from '@wardline/contract'
import { containmentQuery } from '../data/containments.ts'
import { AgentLinks } from '../parts/agent-link.tsx'
import { Fault, Stat, Stats } from '../ui/panel.tsx'
import { containmentHeading, nextSentence } from './containment-texts.ts'
import css from './containments.module.css'

const stateColours = { in_progress: css.running, partial: 'critical', failed: 'critical', complete: undefined }

export function StateWord({ state }: Pick<ContainmentSummary, 'state'>) {
  return <b className={stateColours[state]}>{state.replace('_', ' ')}</b>
}

/** Number of agents that a containment reached, by stage. */
export function Figures({ containment }: { containment: ContainmentSummary }) {
  const { action, requested, changed, skipped, confirmed, proven, state, enforcement } = containment
  const isSuspend = action === 'suspend'
  const target = requested - skipped
  const figures: [name: string, value: number, of: number, isMoving?: boolean][] = [
    [isSuspend ? 'Suspended' : 'Resumed', changed, target],
    ['Confirmed', confirmed, target, state === 'in_progress'],
  ]
  if (isSuspend) figures.push(['Proven stopped', proven, target, true])
  if (enforcement?.calls) figures.push(['Enforcement points', enforcement.confirmed, enforcement.calls])
  return (
    <Stats label="Stages">
      {figures.map(([name, value, of, isMoving]) => {
        const colour = of > 0 && value >= of ? 'ok' : isMoving ? css.running : 'warning'
        return (
          <Stat
            key={name}
            name={name}
            value={`${value.toLocaleString('en')} of ${of.toLocaleString('en')}`}
            note={<progress className={`${css.bar} ${colour}`} aria-label={name} value={value} max={of || 1} />}
          />
        )
      })}
    </Stats>
  )
}

/** Maximum ids listed in a dialog; the containment's page lists the others. */
const maxNamed = 8

/** Progress of a containment, in the dialog that started it. */
export function Progress({ id }: { id: string }) {
  const { data, error } = useQuery(containmentQuery(id))
  if (!data) return error ? <Fault of={error} /> : <p aria-live="assertive">Saved. Loading progress…</p>
  return (
    <>
      <p aria-live="assertive">
        <b>{containmentHeading(data)}.</b>
      </p>
      <Figures containment={data} />
      <p>{nextSentence(data)}</p>
      {data.missing.length > 0 && (
        <AgentLinks label="Not confirmed:" ids={data.missing} count={data.missing_count} max={maxNamed} />
      )}
      <p>
        <Link to="/containments/$id" params={{ id }}>
          Open this containment
        </Link>
      </p>
    </>
  )
}
