import type { RefObject } from 'react'

/** The text by which a list is filtered. `by` says what is looked at; `/` moves there, Enter and Escape leave it. */
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
