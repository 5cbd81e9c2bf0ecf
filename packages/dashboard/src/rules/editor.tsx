import { useQuery } from '@tanstack/react-query'
import { counted } from '@wardline/text/counted'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { useChange } from '../data/change.ts'
import { queryKeys } from '../data/query-keys.ts'
import { checkQuery, faultsOf, type Rule, type RuleFault } from '../data/rules.ts'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { Fault, Panel } from '../ui/panel.tsx'
import { splitUnseen } from '../ui/unseen-characters.ts'
import { modeOfText } from './rule-texts.ts'
import css from './rules.module.css'

const EnforceDialog = lazyDialog(async () => (await import('./enforce-dialog.tsx')).EnforceDialog)

/** Pause in typing before the check, so that a half-typed word is not a fault. */
const restMs = 300
/** Maximum faults listed; the others show once these are fixed. */
const maxFaults = 20

/** Returns the service's check of the text, run when typing pauses. */
function useCheck(text: string) {
  const [rested, setRested] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setRested(text), restMs)
    return () => clearTimeout(timer)
  }, [text])
  const { data, error } = useQuery({ ...checkQuery(rested), enabled: rested.trim() !== '' })
  return rested === text ? { check: data, problem: error } : { check: undefined, problem: null }
}

function summaryOf({ check, problem }: ReturnType<typeof useCheck>): [colour: string, text: string] {
  if (problem) return ['fault', 'check failed']
  if (!check) return ['quiet', 'checking…']
  const { passed, faults, isRule } = check
  if (!isRule) return ['fault', counted(faults.length, 'error')]
  const total = passed + faults.length
  if (total === 0) return ['warning', 'no tests']
  return [faults.length > 0 ? 'fault' : 'ok', `${passed} of ${counted(total, 'test')} pass`]
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

interface TextFieldProps {
  text: string
  faults: readonly RuleFault[]
  onChange(text: string): void
}

/** The text with numbered lines, and the list of its faults. */
function RuleText({ text, faults, onChange }: TextFieldProps) {
  const field = useRef<HTMLTextAreaElement>(null)
  const lines = text.split('\n')
  const faulty = new Set(faults.map(({ line }) => line))
  function goTo({ line, column }: RuleFault) {
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
          aria-label="Text of the rule, in YAML or JSON"
          aria-invalid={faults.length > 0}
          aria-describedby="rule-errors"
          wrap="off"
          spellCheck={false}
          autoComplete="off"
          autoCapitalize="off"
          rows={Math.max(12, lines.length + 1)}
          value={text}
          onChange={({ target }) => onChange(target.value)}
        />
      </div>
      <div id="rule-errors">
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

interface EditorProps {
  text: string
  /** The saved rule; undefined for a new one. */
  rule?: Rule
  saveName: string
  /** Whether there is something to save. */
  isChanged?: boolean
  save(): Promise<string>
  onSaved?(): void
  onChange(text: string): void
  /** Buttons beside Save. */
  children?: ReactNode
}

/** Editor for a rule's text, with faults marked at their lines. Saving asks first if it switches the rule to enforce. */
export function Editor(props: EditorProps) {
  const { text, rule, saveName, isChanged = true, save, onSaved, onChange, children } = props
  const check = useCheck(text)
  const change = useChange({ changes: [queryKeys.rules] })
  const [sent, setSent] = useState<string>()
  const [isAsking, setAsking] = useState(false)
  // A refusal of an earlier text says nothing about this one.
  const refusal = sent === text ? change.fault : undefined
  const faults = [...(check.check?.faults ?? []), ...faultsOf(refusal)]
  const isReady = isChanged && check.check?.faults.length === 0 && !change.isBusy
  const mode = modeOfText(text)
  const isSwitch = mode !== undefined && mode !== rule?.mode
  const [colour, summary] = summaryOf(check)
  const warnings = [
    ...unseenWarnings(text),
    ...(check.check?.notes ?? []).map(({ line, sentence }) => `Line ${line}: ${sentence}`),
    ...(rule && isChanged && isSwitch ? [`The text sets mode ${mode}: saving switches the rule.`] : []),
  ]
  async function send() {
    setSent(text)
    const isDone = await change.run(save)
    setAsking(false)
    if (isDone) onSaved?.()
  }
  return (
    <Panel
      title="Rule"
      note="Sigma syntax, checked as you type"
      end={
        <span role="status" className={colour}>
          {summary}
        </span>
      }
    >
      <RuleText text={text} faults={faults} onChange={onChange} />
      {warnings.map((warning) => (
        <p key={warning} className="inner warning">
          <HostileText text={warning} max={600} />
        </p>
      ))}
      <div className="inner">
        <Fault of={refusal ?? check.problem} />
        <div className="chips">
          <Button
            kind="go"
            disabled={!isReady}
            onClick={() => (isSwitch && mode === 'enforce' ? setAsking(true) : void send())}
          >
            {saveName}
          </Button>
          {children}
        </div>
      </div>
      {isAsking && (
        <EnforceDialog
          rule={rule}
          isText
          isBusy={change.isBusy}
          onConfirm={() => void send()}
          onClose={() => setAsking(false)}
        />
      )}
    </Panel>
  )
}
