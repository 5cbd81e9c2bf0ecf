import { useNavigate } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import type { Rule } from '../data/rules.ts'
import { ChangeDialog } from '../parts/change-dialog.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { responseSentences } from './rule-texts.ts'

/** Title of a dialog that asks before it acts on a rule. */
function Question({ verb, rule }: { verb: string; rule: Rule | undefined }) {
  return (
    <>
      {verb} {rule ? <HostileText text={rule.title} max={120} /> : 'this rule'}?
    </>
  )
}

export function DeleteDialog({ rule, onClose }: { rule: Rule; onClose(): void }) {
  const navigate = useNavigate()
  return (
    <ChangeDialog
      changes={[queryKeys.rules]}
      title={<Question verb="Delete" rule={rule} />}
      submit="Delete rule"
      kind="act"
      send={async () => {
        await call('deleteRule', { params: { id: rule.id } })
        // Navigates first: otherwise the page would request the deleted rule again.
        await navigate({ to: '/rules' })
        return 'Rule deleted.'
      }}
      onClose={onClose}
    >
      <p>The rule stops firing. Its past firings and the suspensions that it made stay.</p>
    </ChangeDialog>
  )
}

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
      title={<Question verb="Enforce" rule={rule} />}
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
