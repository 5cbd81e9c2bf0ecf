import { HostileText, type Span } from './hostile-text.tsx'
import { type JsonLine, jsonLines } from './json-lines.ts'

function Lines({ lines }: { lines: readonly JsonLine[] }) {
  return (
    <pre className="mono metadata">
      {lines.map(({ text, marks }, index) => (
        <div key={index}>{text === '' ? ' ' : <HostileText text={text} max={1_000} marks={marks} />}</div>
      ))}
    </pre>
  )
}

/** An untrusted text of several lines, verbatim. */
export function TextLines({ lines }: { lines: readonly string[] }) {
  return <Lines lines={lines.map((text) => ({ text, marks: [] }))} />
}

const noMarks = () => []

interface JsonTextProps {
  value: unknown
  /** Parts to mark of a text or number, by the names on the way to it. */
  marksOf?: ((path: readonly string[], text: string) => Span[]) | undefined
}

/** An untrusted value as JSON, line by line. */
export function JsonText({ value, marksOf = noMarks }: JsonTextProps) {
  return <Lines lines={jsonLines(value, marksOf)} />
}
