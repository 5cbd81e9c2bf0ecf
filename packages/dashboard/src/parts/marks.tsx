import type { Severity } from '@wardline/contract'
import type { ShownStatus } from '../data/fleet-counts.ts'
import css from './marks.module.css'

const shapes: Record<Severity, string> = {
  info: 'M6 2a4 4 0 1 1 0 8a4 4 0 1 1 0-8z',
  warning: 'M6 1l5.5 10h-11z',
  critical: 'M6 0l6 6l-6 6l-6-6z',
  breach: 'M3 .8h6l3 5.2l-3 5.2h-6l-3-5.2z',
}

/** Shows severity as shape, word and colour, never by one of them alone. */
export function SeverityMark({ severity }: { severity: Severity }) {
  return (
    <span className={`severity ${css.mark} ${css[severity]}`}>
      <svg viewBox="0 0 12 12" aria-hidden="true">
        <path d={shapes[severity]} fill="currentColor" />
      </svg>
      {severity}
    </span>
  )
}

const circle = 'M6 1.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 1 1 0-9z'
const square = 'M1.5 1.5h9v9h-9z'
/** "Stopped" is used only when it is proven. */
const statusShapes: Record<ShownStatus, { d: string; isHollow?: boolean; word: string }> = {
  active: { d: circle, word: 'active' },
  offline: { d: circle, isHollow: true, word: 'offline' },
  pending: { d: square, isHollow: true, word: 'suspended, not confirmed yet' },
  unconfirmed: { d: square, isHollow: true, word: 'suspended, not confirmed in time' },
  delivered: { d: square, isHollow: true, word: 'suspended, delivered, cannot confirm' },
  quiet: { d: square, isHollow: true, word: 'suspended, quiet, cannot confirm' },
  confirmed: { d: square, word: 'suspended, confirmed' },
  proven: { d: square, word: 'suspended, proven stopped' },
  partial: { d: square, isHollow: true, word: 'suspended, partial' },
  violated: { d: shapes.breach, word: 'active although suspended' },
}

export function StatusMark({ status }: { status: ShownStatus }) {
  const { d, isHollow, word } = statusShapes[status]
  return (
    <span className={`status ${css.mark} ${css[status]}`}>
      <svg viewBox="0 0 12 12" aria-hidden="true">
        <path d={d} fill={isHollow ? 'none' : 'currentColor'} stroke="currentColor" strokeWidth="1.6" />
      </svg>
      {word}
    </span>
  )
}
