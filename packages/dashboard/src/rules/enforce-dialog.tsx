import { counted } from '@wardline/text/counted'
import type { Rule } from '../data/rules.ts'
import { FormDialog } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { responseSentences } from './rule-texts.ts'

interface EnforceDialogProps {
  rule?: Rule | undefined
  /** Whether this is for a text that is not saved yet and sets mode enforce. */
  isText?: boolean
  isBusy: boolean
  fault?: unknown
  onConfirm(): void
  onClose(): void
}

/** Before a rule is switched to enforce, explains what each firing will do. */
export function EnforceDialog({ rule, isText, onConfirm, ...dialog }: EnforceDialogProps) {
  return (
    <FormDialog
      {...dialog}
      title={<>Enforce {rule ? <HostileText text={rule.title} max={120} /> : 'this rule'}?</>}
      submit="Enforce"
      kind="act"
      onSubmit={onConfirm}
    >
      {rule && !isText ? (
        <>
          <p>Each firing then, without confirmation:</p>
          <ul>
            {responseSentences(rule.document).map((sentence) => (
              <li key={sentence}>
                • <HostileText text={sentence} max={300} />
              </li>
            ))}
          </ul>
        </>
      ) : (
        <p>The text sets mode enforce: once saved, each firing runs its responses without confirmation.</p>
      )}
      <p className="quiet">
        {rule && `${counted(rule.firings_24h, 'firing')} in the last 24 hours. `}
        The brake limits how many agents are suspended automatically.
      </p>
    </FormDialog>
  )
}
