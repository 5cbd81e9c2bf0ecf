import { type ReactNode, useEffect, useRef, useState } from 'react'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Panel } from '../ui/panel.tsx'
import { splitUnseen } from '../ui/unseen-characters.ts'
import css from './document-editor.module.css'

/** Pause in typing before a check, so that a half-typed word is not a fault. */
const restMs = 300
/** Maximum faults listed; the others show once these are fixed. */
const maxFaults = 20

/** A position in a text, and the fault there. */
interface TextFault {
  line: number
  column: number
  sentence: string
}

/** Returns the text once typing pauses. */
export function useRested(text: string): string {
  const [rested, setRested] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setRested(text), restMs)
    return () => clearTimeout(timer)
  }, [text])
  return rested
}

/** Warns of characters that would be invisible in the field or reverse the text. */
function unseenWarnings(text: string): string[] {
  const found = text.split('\n').flatMap((line, index) => {
    const codes = splitUnseen(line).flatMap(({ code }) => (code === undefined || code === 'U+0009' ? [] : [code]))
    return codes.length > 0 ? [`line ${index + 1} has ${[...new Set(codes)].slice(0, 5).join(', ')}`] : []
  })
  if (found.length === 0) return []
  const more = found.length > 5 ? ` and ${found.length - 5} more lines` : ''
  return [`Invisible characters: ${found.slice(0, 5).join('; ')}${more}.`]
}

interface NumberedTextProps {
  label: string
  text: string
  faults: readonly TextFault[]
  onChange(text: string): void
}

/** The text with numbered lines, and the list of its faults. */
function NumberedText({ label, text, faults, onChange }: NumberedTextProps) {
  const field = useRef<HTMLTextAreaElement>(null)
  const lines = text.split('\n')
  const faulty = new Set(faults.map(({ line }) => line))
  function goTo({ line, column }: TextFault) {
    const before = lines.slice(0, line - 1).reduce((length, each) => length + each.length + 1, 0)
    const at = Math.min(before + column - 1, before + (lines[line - 1]?.length ?? 0))
    field.current?.focus()
    field.current?.setSelectionRange(at, at)
  }
  return (
    <>
      <div className={css.editor}>
        <pre aria-hidden="true">
          {lines.map((_, index) => (
            <span key={index} className={faulty.has(index + 1) ? css.faulty : ''}>
              {index + 1}
              {'\n'}
            </span>
          ))}
        </pre>
        <textarea
          ref={field}
          aria-label={label}
          aria-invalid={faults.length > 0}
          aria-describedby="document-errors"
          wrap="off"
          spellCheck={false}
          autoComplete="off"
          autoCapitalize="off"
          rows={Math.max(12, lines.length + 1)}
          value={text}
          onChange={({ target }) => onChange(target.value)}
        />
      </div>
      <div id="document-errors">
        {faults.length > 0 && (
          <ul className="inner" aria-label="Errors">
            {faults.slice(0, maxFaults).map((fault, index) => (
              <li key={index}>
                <Button kind="plain" onClick={() => goTo(fault)}>
                  <span className="critical">
                    Line {fault.line}, column {fault.column}
                  </span>
                </Button>{' '}
                <HostileText text={fault.sentence} max={600} />
              </li>
            ))}
            {faults.length > maxFaults && <li className="quiet">and {faults.length - maxFaults} more</li>}
          </ul>
        )}
      </div>
    </>
  )
}

interface DocumentEditorProps {
  title: string
  note: string
  /** Name of the text field. */
  label: string
  text: string
  faults: readonly TextFault[]
  /** Sentences about a valid text. */
  warnings: readonly string[]
  /** Result of the check, and its global class. */
  summary: readonly [colour: string, text: string]
  /** Why the check or saving failed. */
  problem: unknown
  saveName: string
  mayBeSaved: boolean
  onSave(): void
  onChange(text: string): void
  /** Buttons beside Save. */
  children?: ReactNode
}

/** A document in YAML or JSON that is checked as a person types, with faults marked at their lines. */
export function DocumentEditor(props: DocumentEditorProps) {
  const { title, note, text, faults, warnings, summary, problem, saveName, mayBeSaved, onSave, children } = props
  const [colour, words] = summary
  return (
    <Panel
      title={title}
      note={note}
      end={
        <span role="status" className={colour}>
          {words}
        </span>
      }
    >
      <NumberedText label={props.label} text={text} faults={faults} onChange={props.onChange} />
      {[...unseenWarnings(text), ...warnings].map((warning) => (
        <p key={warning} className="inner warning">
          <HostileText text={warning} max={600} />
        </p>
      ))}
      <div className="inner">
        <Fault of={problem} />
        <div className="chips">
          <Button kind="go" disabled={!mayBeSaved} onClick={onSave}>
            {saveName}
          </Button>
          {children}
        </div>
      </div>
    </Panel>
  )
}
