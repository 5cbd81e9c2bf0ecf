import type { Stage } from './stages.ts'
import css from './suspend.module.css'

/** Stages in a row. Stages that have not happened are open circles. */
export function StageRow({ stages }: { stages: readonly Stage[] }) {
  return (
    <ol className={css.stages} aria-label="Stages">
      {stages.map(({ name, fact, isDone }) => (
        <li key={name} className={isDone ? undefined : css.open}>
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
            {!isDone && <span className="only-read"> (not observed)</span>}
          </span>
        </li>
      ))}
    </ol>
  )
}
