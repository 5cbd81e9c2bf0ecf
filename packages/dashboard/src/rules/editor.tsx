import { useQuery } from '@tanstack/react-query'
import { counted } from '@wardline/text/counted'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { plainText, splitUnseen } from '../parts/unseen-characters.ts'
import { sentenceOf } from '../service/client.ts'
import { checkQuery, type RuleFault } from '../service/rules.ts'

/** Pause in typing before the check, so that a half-typed word is not a fault. */
const restMs = 300
/** Maximum faults listed; the others show once these are fixed. */
const maxFaults = 20

/** Returns the service's check of the text, run when typing pauses. */
export function useCheck(text: string, mayCheck: boolean) {
  const [rested, setRested] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setRested(text), restMs)
    return () => clearTimeout(timer)
  }, [text])
  const { data, error } = useQuery({ ...checkQuery(rested), enabled: mayCheck && rested.trim() !== '' })
  return rested === text ? { check: data, problem: error } : { check: undefined, problem: null }
}
type Check = ReturnType<typeof useCheck>

function CheckSummary({ check: { check, problem } }: { check: Check }) {
  if (problem) return <span className="fault">not checked</span>
  if (!check) return <span className="quiet">checking…</span>
  const { passed, faults, isRule } = check
  if (!isRule) return <span className="fault">{counted(faults.length, 'fault')}</span>
  const total = passed + faults.length
  if (total === 0) return <span className="warning">no tests</span>
  return (
    <span className={faults.length > 0 ? 'fault' : 'ok'}>
      {passed} of {counted(total, 'test')} pass
    </span>
  )
}

/** Warns of characters that would be invisible in the field or reverse the text. */
function Unseen({ lines }: { lines: readonly string[] }) {
  const found = lines.flatMap((line, index) => {
    const codes = splitUnseen(line).flatMap(({ code }) => (code === undefined || code === 'U+0009' ? [] : [code]))
    return codes.length > 0 ? [`line ${index + 1} has ${[...new Set(codes)].slice(0, 5).join(', ')}`] : []
  })
  if (found.length === 0) return null
  return (
    <p className="rule-inner warning">
      Characters that cannot be seen here: {found.slice(0, 5).join('; ')}
      {found.length > 5 && ` and ${found.length - 5} more lines`}.
    </p>
  )
}

interface EditorProps {
  text: string
  check: Check
  /** Faults of the last attempt to store the text. */
  refused?: readonly RuleFault[]
  onChange(text: string): void
  /** Shown beside the number of tests. */
  children?: ReactNode
}

/** Editor for a rule's text, with faults marked at their lines. */
export function Editor({ text, check, refused = [], onChange, children }: EditorProps) {
  const field = useRef<HTMLTextAreaElement>(null)
  const lines = text.split('\n')
  const faults = [...(check.check?.faults ?? []), ...refused]
  const faulty = new Set(faults.map(({ line }) => line))
  function goTo({ line, column }: RuleFault) {
    const before = lines.slice(0, line - 1).reduce((length, each) => length + each.length + 1, 0)
    const at = Math.min(before + column - 1, before + (lines[line - 1]?.length ?? 0))
    field.current?.focus()
    field.current?.setSelectionRange(at, at)
  }
  return (
    <section className="panel" aria-labelledby="rule-text">
      <header>
        <h2 id="rule-text">Rule</h2>
        <span className="quiet">Sigma grammar, checked as you type</span>
        <span className="end" role="status">
          <CheckSummary check={check} />
        </span>
      </header>
      <div className="rule-editor">
        <pre aria-hidden="true">
          {lines.map((_, index) => (
            <span key={index} className={faulty.has(index + 1) ? 'at-fault' : ''}>
              {index + 1}
              {'\n'}
            </span>
          ))}
        </pre>
        <textarea
          ref={field}
          className="mono"
          aria-label="Text of the rule, in YAML or JSON"
          aria-invalid={faults.length > 0}
          aria-describedby="rule-faults"
          wrap="off"
          spellCheck={false}
          autoComplete="off"
          autoCapitalize="off"
          rows={Math.max(12, lines.length + 1)}
          value={text}
          onChange={({ target }) => onChange(target.value)}
        />
      </div>
      <div id="rule-faults">
        {faults.length > 0 && (
          <ul className="rule-faults" aria-label="Faults">
            {faults.slice(0, maxFaults).map((fault, index) => (
              <li key={index}>
                <button type="button" className="plain" onClick={() => goTo(fault)}>
                  Line {fault.line}, column {fault.column}
                </button>{' '}
                <HostileText text={fault.sentence} max={600} />
              </li>
            ))}
            {faults.length > maxFaults && <li className="quiet">and {faults.length - maxFaults} more</li>}
          </ul>
        )}
        {check.problem && (
          <p role="alert" className="rule-inner fault">
            {plainText(sentenceOf(check.problem))}
          </p>
        )}
      </div>
      {check.check?.notes.map(({ line, sentence }, index) => (
        <p key={index} className="rule-inner warning">
          Line {line}: <HostileText text={sentence} max={600} />
        </p>
      ))}
      <Unseen lines={lines} />
      {children}
    </section>
  )
}
