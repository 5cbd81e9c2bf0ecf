import { limits } from '@wardline/contract'
import { ChipGroup } from '../ui/button.tsx'
import { TextArea } from '../ui/field.tsx'

const reasons = {
  suspend: ['Unusual traffic', 'Decoy touched', 'Wrong output', 'Maintenance'],
  resume: ['Cause fixed', 'False alarm', 'Maintenance over'],
}

/** Whether only a suggestion stands there: "Maintenance:" tells nobody what was done, or why. */
const isUnfinished = (reason: string): boolean => reason.trim().endsWith(':')

interface ReasonFieldProps {
  action: keyof typeof reasons
  reason: string
  onReason(reason: string): void
  /** Whether the field gets the focus when its dialog opens. */
  isFirst?: boolean
}

/** Field for the operator's reason, with buttons for common ones. */
export function ReasonField({ action, reason, onReason, isFirst = false }: ReasonFieldProps) {
  return (
    <>
      <ChipGroup
        label="Suggestions"
        value={reasons[action].find((text) => reason.startsWith(text))}
        options={reasons[action].map((text) => ({ value: text, name: text }))}
        onChange={(text) => onReason(`${text}: `)}
      />
      <TextArea
        label="Reason"
        isFirst={isFirst}
        rows={3}
        required
        maxLength={limits.reason}
        placeholder="Shown to everyone who opens the agent"
        ref={(area) => area?.setCustomValidity(isUnfinished(reason) ? 'Add what happened, after the colon.' : '')}
        value={reason}
        onChange={({ target }) => onReason(target.value)}
      />
    </>
  )
}
