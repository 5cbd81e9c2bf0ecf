import type { Stage } from './stages.ts'
import './suspend.css'

/** Stages in a row. Stages that have not happened are open circles. */
export function StageRow({ stages }: { stages: readonly Stage[] }) {
  return (
    <ol className="stages">
      {stages.map(({ name, fact, isDone }) => (
        <li key={name} className={isDone ? 'done' : 'open'}>
          <svg viewBox="0 0 12 12" aria-hidden="true">
            <circle
              cx="6"
              cy="6"
              r="4.6"
              fill={isDone ? 'currentColor' : 'var(--surface)'}
              stroke="currentColor"
              strokeWidth="1.8"
            />
          </svg>
          <b>{name}</b>
          <span className="quiet">
            {fact}
            <span className="only-read">{isDone ? '' : ' (has not happened)'}</span>
          </span>
        </li>
      ))}
    </ol>
  )
}
