import { CopyButton } from '../ui/copy-button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import css from './snippet.module.css'

/** Lines to copy verbatim. */
export function Snippet({ label, text }: { label: string; text: string }) {
  return (
    <figure className={css.snippet}>
      <figcaption>
        <span>{label}</span>
        <CopyButton name="Copy" text={text} />
      </figcaption>
      <div className={css.lines} tabIndex={0} role="group" aria-label={label}>
        <pre>
          {text.split('\n').map((line, index) => (
            <span key={index}>
              {index > 0 && '\n'}
              <HostileText text={line} max={4_000} />
            </span>
          ))}
        </pre>
      </div>
    </figure>
  )
}
