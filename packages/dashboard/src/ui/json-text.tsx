import { HostileText } from './hostile-text.tsx'

/** An untrusted value as JSON, line by line. */
export function JsonText({ value }: { value: unknown }) {
  return (
    <pre className="mono metadata">
      {JSON.stringify(value, null, 2)
        .split('\n')
        .map((text, index) => (
          <div key={index}>
            <HostileText text={text} max={500} />
          </div>
        ))}
    </pre>
  )
}
