import { useQuery } from '@tanstack/react-query'
import { counted } from '@wardline/text/counted'
import { type ReactNode, useState } from 'react'
import { useChange } from '../data/change.ts'
import { type ListedPolicy, policyCheckQuery } from '../data/policies.ts'
import { queryKeys } from '../data/query-keys.ts'
import { DocumentEditor, useRested } from '../parts/document-editor.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { modeOfText } from './policy-texts.ts'

const EnforceDialog = lazyDialog(async () => (await import('./enforce-dialog.tsx')).EnforceDialog)

interface EditorProps {
  text: string
  /** The saved policy; undefined for a new one. */
  policy?: ListedPolicy
  saveName: string
  /** Whether there is something to save. */
  isChanged?: boolean
  save(): Promise<string>
  onSaved?(): void
  onChange(text: string): void
  /** Buttons beside Save. */
  children?: ReactNode
}

/** Editor for a policy's text. Saving asks first if it switches the policy to enforce. */
export function Editor(props: EditorProps) {
  const { text, policy, saveName, isChanged = true, save, onSaved, onChange, children } = props
  const rested = useRested(text)
  const { data, error } = useQuery({ ...policyCheckQuery(rested), enabled: rested.trim() !== '' })
  const check = rested === text ? data : undefined
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.policies] })
  const [sent, setSent] = useState<string>()
  const [isAsking, setAsking] = useState(false)
  const faults = check?.faults ?? []
  const mode = modeOfText(text)
  const isSwitch = mode !== undefined && mode !== policy?.mode
  async function send() {
    setSent(text)
    const isDone = await run(save)
    setAsking(false)
    if (isDone) onSaved?.()
  }
  function summary(): [colour: string, text: string] {
    if (rested === text && error) return ['fault', 'check failed']
    if (!check) return ['quiet', 'checking…']
    return faults.length > 0
      ? ['fault', counted(faults.length, 'error')]
      : ['ok', `${counted(check.rules, 'rule')}, no errors`]
  }
  return (
    <>
      <DocumentEditor
        title="Policy"
        note="checked as you type"
        label="Text of the policy, in YAML or JSON"
        text={text}
        faults={faults}
        warnings={policy && isChanged && isSwitch ? [`The text sets mode ${mode}: saving switches the policy.`] : []}
        summary={summary()}
        // A refusal of an earlier text says nothing about this one.
        problem={(sent === text ? fault : undefined) ?? (rested === text ? error : undefined)}
        saveName={saveName}
        mayBeSaved={isChanged && check !== undefined && faults.length === 0 && !isBusy}
        onSave={() => (isSwitch && mode === 'enforce' ? setAsking(true) : void send())}
        onChange={onChange}
      >
        {children}
      </DocumentEditor>
      {isAsking && (
        <EnforceDialog policy={policy} isBusy={isBusy} onConfirm={() => void send()} onClose={() => setAsking(false)} />
      )}
    </>
  )
}
