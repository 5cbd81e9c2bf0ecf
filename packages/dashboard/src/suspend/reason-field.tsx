import { limits } from '@wardline/contract'

const reasons = {
  suspend: ['Unusual traffic', 'Decoy touched', 'Wrong output', 'Maintenance'],
  resume: ['Cause removed', 'False alarm', 'Maintenance over'],
}

interface ReasonFieldProps {
  action: keyof typeof reasons
  reason: string
  onReason(reason: string): void
  /** Called on ⌘↵. */
  onSubmit(): void
  /** Whether the field gets the focus when its dialog opens. */
  isFirst?: boolean
}

/** Field for the operator's reason, with buttons for common ones. */
export function ReasonField({ action, reason, onReason, onSubmit, isFirst = false }: ReasonFieldProps) {
  return (
    <>
      <div className="chips">
        {reasons[action].map((text) => (
          <button
            key={text}
            type="button"
            className="chip"
            aria-pressed={reason.startsWith(text)}
            onClick={() => onReason(`${text}: `)}
          >
            {text}
          </button>
        ))}
      </div>
      <label className="reason">
        <span className="only-read">Reason</span>
        <textarea
          data-first={isFirst || undefined}
          rows={3}
          required
          maxLength={limits.reason}
          placeholder="Reason: everybody who looks at the agent reads it"
          value={reason}
          onChange={(event) => onReason(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) onSubmit()
          }}
        />
      </label>
    </>
  )
}
