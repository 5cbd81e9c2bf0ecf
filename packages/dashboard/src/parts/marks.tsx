import type { Severity } from '@wardline/contract'
import type { ShownStatus } from '../data/fleet-counts.ts'
import css from './marks.module.css'

const shapes: Record<Severity, string> = {
  info: 'M6 2a4 4 0 1 1 0 8a4 4 0 1 1 0-8z',
  warning: 'M6 1l5.5 10h-11z',
  critical: 'M6 0l6 6l-6 6l-6-6z',
  breach: 'M3 .8h6l3 5.2l-3 5.2h-6l-3-5.2z',
}

interface MarkProps {
  /** Colour: a class of the kit, or one of this file. */
  tone: string | undefined
  shape: string
  isHollow?: boolean
  word: string
}

function Mark({ tone, shape, isHollow = false, word }: MarkProps) {
  return (
    <span className={`${css.mark} ${tone}`}>
      <svg viewBox="0 0 12 12" aria-hidden="true">
        <path
          d={shape}
          {...(isHollow ? { fill: 'none', stroke: 'currentColor', strokeWidth: 1.6 } : { fill: 'currentColor' })}
        />
      </svg>
      {word}
    </span>
  )
}

/** Shows severity as shape, word and colour, never by one of them alone. */
export const SeverityMark = ({ severity }: { severity: Severity }) => (
  <Mark tone={severity === 'info' ? css.info : severity} shape={shapes[severity]} word={severity} />
)

const disc = 'M6 .7a5.3 5.3 0 1 1 0 10.6a5.3 5.3 0 1 1 0-10.6z'
const ring = 'M6 1.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 1 1 0-9z'
const block = 'M.7.7h10.6v10.6H.7z'
const frame = 'M1.5 1.5h9v9h-9z'
/** "Stopped" is used only when it is proven, "held" when its supervisor holds it. */
const statuses: Record<ShownStatus, MarkProps> = {
  active: { tone: 'ok', shape: disc, word: 'active' },
  offline: { tone: css.offline, shape: ring, isHollow: true, word: 'offline' },
  pending: { tone: 'critical', shape: frame, isHollow: true, word: 'suspended, not confirmed yet' },
  unconfirmed: { tone: 'critical', shape: frame, isHollow: true, word: 'suspended, not confirmed in time' },
  delivered: { tone: 'critical', shape: frame, isHollow: true, word: 'suspended, delivered, cannot confirm' },
  quiet: { tone: 'suspended', shape: frame, isHollow: true, word: 'suspended, quiet, cannot confirm' },
  confirmed: { tone: 'suspended', shape: block, word: 'suspended, confirmed' },
  proven: { tone: 'suspended', shape: block, word: 'suspended, proven stopped' },
  enforced: { tone: 'suspended', shape: block, word: 'suspended, held by its supervisor' },
  partial: { tone: 'critical', shape: frame, isHollow: true, word: 'suspended, partial' },
  violated: { tone: 'breach', shape: shapes.breach, word: 'active although suspended' },
}

export const StatusMark = ({ status }: { status: ShownStatus }) => <Mark {...statuses[status]} />
