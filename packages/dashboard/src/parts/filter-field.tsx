import type { RefObject } from 'react'

/** Text filter of a list. `by` names the fields that are searched. `/` focuses it; Enter and Escape leave it. */
export function FilterField({
  field,
  by,
  value,
  onChange,
}: {
  field: RefObject<HTMLInputElement | null>
  by: string
  value: string
  onChange(text: string): void
}) {
  return (
    <input
      ref={field}
      type="search"
      aria-label={`Filter by ${by}`}
      placeholder={`Filter by ${by}  /`}
      value={value}
      onChange={({ target }) => onChange(target.value)}
      onKeyDown={({ key }) => {
        if (key === 'Escape' || key === 'Enter') field.current?.blur()
      }}
    />
  )
}
