import { useQuery } from '@tanstack/react-query'
import { counted } from '@wardline/text/counted'
import { type ReactNode, useState } from 'react'
import { useChange } from '../data/change.ts'
import { queryKeys } from '../data/query-keys.ts'
import { checkQuery, faultsOf, type Rule } from '../data/rules.ts'
import { DocumentEditor, useRested } from '../parts/document-editor.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { modeOfText } from './rule-texts.ts'

const EnforceDialog = lazyDialog(async () => (await import('./enforce-dialog.tsx')).EnforceDialog)

/** Returns the service's check of the text, run when typing pauses. */
function useCheck(text: string) {
  const rested = useRested(text)
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
  const warnings = [
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
    <>
      <DocumentEditor
        title="Rule"
        note="Sigma syntax, checked as you type"
        label="Text of the rule, in YAML or JSON"
        text={text}
        faults={faults}
        warnings={warnings}
        summary={summaryOf(check)}
        problem={refusal ?? check.problem}
        saveName={saveName}
        mayBeSaved={isReady}
        onSave={() => (isSwitch && mode === 'enforce' ? setAsking(true) : void send())}
        onChange={onChange}
      >
        {children}
      </DocumentEditor>
      {isAsking && (
        <EnforceDialog
          rule={rule}
          isText
          isBusy={change.isBusy}
          onConfirm={() => void send()}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  )
}
