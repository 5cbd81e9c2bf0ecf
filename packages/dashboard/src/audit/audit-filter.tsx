import { type RefObject, useRef } from 'react'
import { inputOf, instantOfInput } from '../parts/instant-input.ts'
import { Button } from '../ui/button.tsx'
import { TextField } from '../ui/field.tsx'
import { dayMs } from '../ui/span.ts'
import { useZone } from '../ui/time.tsx'
import css from './audit.module.css'
import type { AuditSearch } from './search.ts'

type Filter = Omit<AuditSearch, 'open'>

const spans = [
  ['24 h', dayMs],
  ['7 days', 7 * dayMs],
  ['30 days', 30 * dayMs],
] as const
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
  const form = useRef<HTMLFormElement>(null)
  function apply(change: Filter = {}) {
    const values = form.current ? new FormData(form.current) : new FormData()
    const typed = (name: string) => String(values.get(name) ?? '').trim() || undefined
    const texts = { actor: typed('actor'), action: typed('action'), target: typed('target') }
    const next = { ...filter, ...texts, ...change }
    if (JSON.stringify(next) !== JSON.stringify(filter)) onChange(next)
  }
  const text = (name: 'actor' | 'action' | 'target') => ({
    name,
    defaultValue: filter[name] ?? '',
    onBlur: () => apply(),
  })
  return (
    <form
      ref={form}
      className={`${css.filter} chips`}
      onSubmit={(event) => {
        event.preventDefault()
        apply()
      }}
    >
      <TextField label="Actor" placeholder="key name or id" maxLength={80} ref={search} {...text('actor')} />
      <TextField label="Action" placeholder="such as key.*" maxLength={81} list="audit-actions" {...text('action')} />
      <TextField label="Target" placeholder="id" maxLength={200} {...text('target')} />
      <datalist id="audit-actions">
        {[...groups, ...actions].map((known) => (
          <option key={known} value={known} />
        ))}
      </datalist>
      {(['from', 'to'] as const).map((name) => (
        <TextField
          key={name}
          label={`${name === 'from' ? 'From' : 'Before'} (${zone === 'utc' ? 'UTC' : 'local time'})`}
          type="datetime-local"
          value={inputOf(filter[name], zone)}
          onChange={({ target }) => apply({ [name]: instantOfInput(target.value, zone) })}
        />
      ))}
      <span className="chips">
        {spans.map(([name, ms]) => (
          <Button key={name} onClick={() => apply({ from: new Date(Date.now() - ms).toISOString(), to: undefined })}>
            {name}
          </Button>
        ))}
        {Object.values(filter).some((value) => value !== undefined) && (
          <Button kind="plain" onClick={() => onChange({})}>
            Show all
          </Button>
        )}
      </span>
      {/* Enter submits a form with several fields only if it has a submit button. */}
      <button type="submit" className="only-read">
        Apply
      </button>
    </form>
  )
}
