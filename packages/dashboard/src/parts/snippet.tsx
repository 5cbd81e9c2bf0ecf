import { CopyButton } from './copy-button.tsx'
import { HostileText } from './hostile-text.tsx'
import './snippet.css'

/** Lines to copy verbatim. */
export function Snippet({ label, text }: { label: string; text: string }) {
  return (
    <figure className="snippet">
      <figcaption>
        <span>{label}</span>
        <CopyButton name="Copy" text={text} />
      </figcaption>
      <div className="lines" tabIndex={0} role="group" aria-label={label}>
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
