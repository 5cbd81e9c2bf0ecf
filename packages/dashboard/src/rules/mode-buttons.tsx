import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type RuleMode, ruleModes } from '@wardline/contract'
import { useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { type Rule, rulesKey } from '../service/rules.ts'
import { modeSentences, responseSentences } from './rule-texts.ts'

const names: Record<RuleMode, string> = { observe: 'Observe', alert: 'Alert', enforce: 'Enforce' }

/** Before a rule is switched to enforce, explains what each firing will do. */
export function EnforceDialog({
  rule,
  isText = false,
  isBusy,
  fault,
  onConfirm,
  onClose,
}: {
  rule?: Rule
  /** Whether this is for a text that is not stored yet and contains mode enforce. */
  isText?: boolean
  isBusy: boolean
  fault: unknown
  onConfirm(): void
  onClose(): void
}) {
  return (
    <Dialog label="Enforce the rule" onClose={onClose}>
      <h2>
        {rule ? (
          <>
            Enforce “<HostileText text={rule.title} max={120} />
            ”?
          </>
        ) : (
          'Enforce the rule?'
        )}
      </h2>
      {rule && !isText ? (
        <>
          <p>From then on each firing acts without a confirmation:</p>
          <ul className="rule-responses">
            {responseSentences(rule.document).map((sentence) => (
              <li key={sentence}>
                <HostileText text={sentence} max={300} />
              </li>
            ))}
          </ul>
        </>
      ) : (
        <p>The text says mode enforce: once it is stored, each firing makes its responses without a confirmation.</p>
      )}
      <p className="quiet">
        {rule && `It fired ${rule.firings_24h.toLocaleString('en')} times in the last 24 hours. `}
        The brake of automatic suspensions bounds how many agents are stopped.
      </p>
      {fault !== null && fault !== undefined && (
        <p role="alert" className="fault">
          <HostileText text={sentenceOf(fault)} max={600} />
        </p>
      )}
      <div className="foot">
        <button type="button" data-first onClick={onClose}>
          Cancel <kbd>Esc</kbd>
        </button>
        <button type="button" className="act" disabled={isBusy} onClick={onConfirm}>
          Enforce
        </button>
      </div>
    </Dialog>
  )
}

interface ModeButtonsProps {
  rule: Rule
  /** Why the buttons are disabled. */
  locked?: string
  /** Whether the editor's text differs from the stored one. */
  isChanged: boolean
}

/** Buttons for a rule's mode, from the least effect to the most. */
export function ModeButtons({ rule, locked, isChanged }: ModeButtonsProps) {
  const client = useQueryClient()
  const [isAsking, setAsking] = useState(false)
  const change = useMutation({
    mutationFn: (mode: RuleMode) => call('setRuleMode', { params: { id: rule.id }, body: { mode } }),
    onSuccess: () => setAsking(false),
    onSettled: () => client.invalidateQueries({ queryKey: rulesKey }),
  })
  const reasonOf = (mode: RuleMode): string | undefined =>
    locked ?? (isChanged && mode !== 'observe' ? 'Store the text first: the mode holds for what is stored' : undefined)
  function press(mode: RuleMode) {
    change.reset()
    if (mode === rule.mode) return
    if (mode === 'enforce') setAsking(true)
    else change.mutate(mode)
  }
  return (
    <div className="rule-mode">
      <div className="chips" role="group" aria-label="Mode">
        {ruleModes.map((mode) => {
          const reason = reasonOf(mode)
          return (
            <button
              key={mode}
              type="button"
              className={`mode ${mode}`}
              aria-pressed={mode === rule.mode}
              disabled={reason !== undefined || change.isPending}
              title={reason ?? modeSentences[mode]}
              onClick={() => press(mode)}
            >
              {names[mode]}
              {mode === 'enforce' && rule.mode !== 'enforce' && '…'}
            </button>
          )
        })}
      </div>
      <p className="quiet">{modeSentences[rule.mode]}</p>
      {change.error && !isAsking && (
        <p role="alert" className="fault">
          <HostileText text={sentenceOf(change.error)} max={600} />
        </p>
      )}
      {isAsking && (
        <EnforceDialog
          rule={rule}
          isBusy={change.isPending}
          fault={change.error}
          onConfirm={() => change.mutate('enforce')}
          onClose={() => setAsking(false)}
        />
      )}
    </div>
  )
}
