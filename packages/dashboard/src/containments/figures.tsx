import type { ContainmentSummary } from '@wardline/contract'
import './containments.css'

function Figure({ name, value, of, isNow = false }: { name: string; value: number; of: number; isNow?: boolean }) {
  const isDone = of > 0 && value >= of
  const part = of === 0 ? 0 : Math.min(1, value / of)
  return (
    <div className={isDone ? 'done' : ''}>
      <dt>{name}</dt>
      <dd>
        <b>{value.toLocaleString('en')}</b> of {of.toLocaleString('en')}
        <svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
          <rect className="whole" width="100" height="4" />
          <rect className={isNow && !isDone ? 'part now' : 'part'} width={part * 100} height="4" />
        </svg>
      </dd>
    </div>
  )
}

/** Number of agents that a containment reached, by stage. */
export function Figures({ containment }: { containment: ContainmentSummary }) {
  const { action, requested, changed, skipped, confirmed, proven, state, enforcement } = containment
  const target = requested - skipped
  return (
    <dl className="figures">
      <Figure name={action === 'suspend' ? 'Suspended' : 'Resumed'} value={changed} of={target} />
      <Figure name="Confirmed" value={confirmed} of={target} isNow={state === 'in_progress'} />
      {action === 'suspend' && <Figure name="Proven stopped" value={proven} of={target} isNow />}
      {enforcement !== undefined && enforcement.calls > 0 && (
        <Figure name="Enforcement points" value={enforcement.confirmed} of={enforcement.calls} />
      )}
    </dl>
  )
}
