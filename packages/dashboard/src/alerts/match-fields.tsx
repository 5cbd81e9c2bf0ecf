import { type AlertMatch, severities } from '@wardline/contract'
import { matchOf } from './alert-texts.ts'

/** Form fields for the match of a route or silence; `matchOfForm` reads them. */
export function MatchFields({ match = {} }: { match?: AlertMatch | undefined }) {
  return (
    <fieldset className="fields">
      <legend>Which alerts: all that is given must match; nothing given matches every alert</legend>
      <div className="chips">
        {severities.map((severity) => (
          <label key={severity} className="check">
            <input
              type="checkbox"
              name="severity"
              value={severity}
              defaultChecked={match.severities?.includes(severity) ?? false}
            />
            {severity}
          </label>
        ))}
      </div>
      <label className="field">
        Types
        <input name="types" defaultValue={match.types?.join(', ') ?? ''} placeholder="honeypot_*, policy_violation" />
      </label>
      <label className="field">
        Agents
        <input name="instances" defaultValue={match.instances?.join(', ') ?? ''} placeholder="billing-1, support-*" />
      </label>
    </fieldset>
  )
}

export const matchOfForm = (form: FormData): AlertMatch =>
  matchOf({
    severities: form.getAll('severity').map(String),
    types: String(form.get('types') ?? ''),
    instances: String(form.get('instances') ?? ''),
  })
