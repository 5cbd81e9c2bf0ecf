import { counted } from '@wardline/text/counted'
import type { ListedPolicy } from '../data/policies.ts'
import { FormDialog } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { audienceText, flowSentences } from './policy-texts.ts'

interface EnforceDialogProps {
  policy?: Pick<ListedPolicy, 'title' | 'for' | 'flow' | 'rules'> | undefined
  isBusy: boolean
  fault?: unknown
  onConfirm(): void
  onClose(): void
}

/** Before a policy decides, says for whom and by how many rules. */
export function EnforceDialog({ policy, onConfirm, ...dialog }: EnforceDialogProps) {
  const count = (decision: string) => policy?.rules.filter((rule) => rule.decision === decision).length ?? 0
  return (
    <FormDialog
      {...dialog}
      title={<>Enforce {policy ? <HostileText text={policy.title} max={120} /> : 'this policy'}?</>}
      submit="Enforce"
      kind="act"
      onSubmit={onConfirm}
    >
      <p>From their next poll on, the agents decide by this policy before each call.</p>
      {policy && (
        <ul>
          <li>
            • For <HostileText text={audienceText(policy.for)} max={300} />
          </li>
          <li>
            • {counted(count('deny'), 'rule')} {count('deny') === 1 ? 'denies' : 'deny'}, {count('ask')}{' '}
            {count('ask') === 1 ? 'asks' : 'ask'}, {flowSentences[policy.flow]}
          </li>
        </ul>
      )}
      <p className="quiet">What is asked waits for an operator on the screen Approvals.</p>
    </FormDialog>
  )
}
