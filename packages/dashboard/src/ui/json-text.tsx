import { HostileText } from './hostile-text.tsx'

/** An untrusted text of several lines, verbatim. */
export function TextLines({ lines }: { lines: readonly string[] }) {
  return (
    <pre className="mono metadata">
      {lines.map((text, index) => (
        <div key={index}>{text === '' ? ' ' : <HostileText text={text} max={1_000} />}</div>
      ))}
    </pre>
  )
}

/** An untrusted value as JSON, line by line. */
export function JsonText({ value }: { value: unknown }) {
  return <TextLines lines={JSON.stringify(value, null, 2).split('\n')} />
}
