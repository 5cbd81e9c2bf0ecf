import { type RefObject, useState } from 'react'
import { inputOf, instantOfInput } from '../parts/instant-input.ts'
import { dayMs } from '../parts/span.ts'
import { useZone } from '../parts/time.tsx'
import type { AuditSearch } from './entries.ts'

type Filter = Omit<AuditSearch, 'open'>

const spans = [
  { name: '24 h', ms: dayMs },
  { name: '7 days', ms: 7 * dayMs },
  { name: '30 days', ms: 30 * dayMs },
]
/** Groups of actions that the service accepts as one filter. */
const groups = [
  'instance.*',
  'key.*',
  'honeypot.*',
  'alert.*',
  'alert_channel.*',
  'alert_route.*',
  'silence.*',
  'view.*',
]

interface FilterProps {
  filter: Filter
  /** Actions in the loaded list, offered as suggestions. */
  actions: readonly string[]
  search: RefObject<HTMLInputElement | null>
  onChange(filter: Filter): void
}

/** Form for the filter in the address. Enter or leaving a field applies it. */
export function AuditFilter({ filter, actions, search, onChange }: FilterProps) {
  const zone = useZone()
  const [actor, setActor] = useState(filter.actor ?? '')
  const [action, setAction] = useState(filter.action ?? '')
  const [target, setTarget] = useState(filter.target ?? '')
  const given = (text: string) => text.trim() || undefined
  function apply(change: Filter = {}) {
    const next = { ...filter, actor: given(actor), action: given(action), target: given(target), ...change }
    if (JSON.stringify(next) !== JSON.stringify(filter)) onChange(next)
  }
  const fields = [
    { name: 'Actor', hint: 'key name or id', value: actor, set: setActor, max: 80 },
    { name: 'Action', hint: 'such as key.*', value: action, set: setAction, max: 81 },
    { name: 'Target', hint: 'id', value: target, set: setTarget, max: 200 },
  ]
  const isNarrow = Object.values(filter).some((value) => value !== undefined)
  return (
    <form
      className="chips audit-filter"
      onSubmit={(event) => {
        event.preventDefault()
        apply()
      }}
    >
      {fields.map(({ name, hint, value, set, max }, index) => (
        <label key={name}>
          {name}
          <input
            ref={index === 0 ? search : undefined}
            placeholder={hint}
            maxLength={max}
            list={name === 'Action' ? 'audit-actions' : undefined}
            value={value}
            onChange={(event) => set(event.target.value)}
            onBlur={() => apply()}
          />
        </label>
      ))}
      <datalist id="audit-actions">
        {[...groups, ...actions].map((known) => (
          <option key={known} value={known} />
        ))}
      </datalist>
      {(['from', 'to'] as const).map((name) => (
        <label key={name}>
          {name === 'from' ? 'From' : 'Before'}, {zone === 'utc' ? 'UTC' : 'local time'}
          <input
            type="datetime-local"
            value={inputOf(filter[name], zone)}
            onChange={(event) => apply({ [name]: instantOfInput(event.target.value, zone) })}
          />
        </label>
      ))}
      {spans.map(({ name, ms }) => (
        <button
          key={name}
          type="button"
          className="chip"
          onClick={() => apply({ from: new Date(Date.now() - ms).toISOString(), to: undefined })}
        >
          {name}
        </button>
      ))}
      {isNarrow && (
        <button type="button" className="chip" onClick={() => onChange({})}>
          Show all
        </button>
      )}
      {/* Enter submits a form with several fields only if it has a submit button. */}
      <button type="submit" className="only-read">
        Apply
      </button>
    </form>
  )
}
