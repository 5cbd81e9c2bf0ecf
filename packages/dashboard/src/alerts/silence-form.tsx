import { type FormEvent, useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { call } from '../service/client.ts'
import { OperatorButton, OutcomeText } from './action-parts.tsx'
import { MatchFields, matchOfForm } from './match-fields.tsx'
import { useAction } from './use-action.ts'

const hourMs = 3_600_000
const spans = [
  [1, '1 hour'],
  [4, '4 hours'],
  [24, '1 day'],
  [168, '7 days'],
] as const

export function SilenceForm({ onClose }: { onClose(): void }) {
  const { isBusy, outcome, run } = useAction('routing')
  const [span, setSpan] = useState('1')
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const end = span === 'until' ? Date.parse(String(form.get('until'))) : Date.now() + Number(span) * hourMs
    const match = matchOfForm(form)
    void run(async () => {
      if (Number.isNaN(end)) throw new Error('Until when? Give a date and a time.')
      if (Object.keys(match).length === 0 && !form.has('everything'))
        throw new Error('This silences every alert: name severities, types or agents, or tick “every alert”.')
      await call('createSilence', {
        body: { match, reason: String(form.get('reason')).trim(), ends_at: new Date(end).toISOString() },
      })
      return 'Silenced.'
    }).then((isDone) => isDone && onClose())
  }
  return (
    <Dialog label="Add a silence" onClose={onClose}>
      <form onSubmit={submit}>
        <h2>Add a silence</h2>
        <div className="fields">
          <MatchFields />
          <label className="check">
            <input type="checkbox" name="everything" />
            Every alert, if nothing is given above
          </label>
          <label className="field">
            Reason
            <input name="reason" data-first required maxLength={500} placeholder="Everybody who looks here reads it" />
          </label>
          <label className="field">
            For
            <select value={span} onChange={(event) => setSpan(event.target.value)}>
              {spans.map(([hours, text]) => (
                <option key={hours} value={hours}>
                  {text}
                </option>
              ))}
              <option value="until">until…</option>
            </select>
          </label>
          {span === 'until' && (
            <label className="field">
              Until (local time)
              <input name="until" type="datetime-local" required />
            </label>
          )}
        </div>
        <OutcomeText outcome={outcome} />
        <div className="foot">
          <button type="button" onClick={onClose}>
            Cancel <kbd>Esc</kbd>
          </button>
          <OperatorButton type="submit" className="go" disabled={isBusy}>
            Silence
          </OperatorButton>
        </div>
      </form>
    </Dialog>
  )
}
