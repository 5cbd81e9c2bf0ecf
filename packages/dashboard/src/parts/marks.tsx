import type { Severity } from '@wardline/contract'
import type { ShownStatus } from '../service/fleet-counts.ts'

const shapes: Record<Severity, string> = {
  info: 'M6 2a4 4 0 1 1 0 8a4 4 0 1 1 0-8z',
  warning: 'M6 1l5.5 10h-11z',
  critical: 'M6 0l6 6l-6 6l-6-6z',
  breach: 'M3 .8h6l3 5.2l-3 5.2h-6l-3-5.2z',
}

/** Severity as shape, word and colour: none of the three alone. */
export function SeverityMark({ severity }: { severity: Severity }) {
  return (
    <span className={`severity ${severity}`}>
      <svg viewBox="0 0 12 12" aria-hidden="true">
        <path d={shapes[severity]} fill="currentColor" />
      </svg>
      {severity}
    </span>
  )
}

const statusShapes: Record<ShownStatus, { d: string; isHollow?: boolean; word: string }> = {
  active: { d: 'M6 1.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 1 1 0-9z', word: 'active' },
  suspended: { d: 'M1.5 1.5h9v9h-9z', word: 'suspended' },
  unconfirmed: { d: 'M1.5 1.5h9v9h-9z', isHollow: true, word: 'suspended, not confirmed' },
  offline: { d: 'M6 1.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 1 1 0-9z', isHollow: true, word: 'offline' },
}

export function StatusMark({ status }: { status: ShownStatus }) {
  const { d, isHollow, word } = statusShapes[status]
  return (
    <span className={`status ${status}`}>
      <svg viewBox="0 0 12 12" aria-hidden="true">
        <path d={d} fill={isHollow ? 'none' : 'currentColor'} stroke="currentColor" strokeWidth="1.6" />
      </svg>
      {word}
    </span>
  )
}
