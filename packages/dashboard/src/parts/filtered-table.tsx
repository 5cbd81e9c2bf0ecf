import { type ComponentProps, useRef, useState } from 'react'
import { ChipGroup } from '../ui/button.tsx'
import { SearchField } from '../ui/field.tsx'
import { useKeys } from '../ui/shortcuts.ts'
import { DataTable } from '../ui/table.tsx'

/** The filter in the address: a text, and a kind of rows. */
interface Filter<Kind extends string> {
  q?: string | undefined
  show?: Kind | undefined
}

interface FilteredTableProps<Row, Kind extends string>
  extends Omit<ComponentProps<typeof DataTable<Row>>, 'at' | 'rows'> {
  rows: readonly Row[]
  filter: Filter<Kind>
  onFilter(change: Filter<Kind>): void
  /** Label of the text filter, which says what it searches. */
  textLabel: string
  /** The text of a row that the filter searches. */
  textOf(row: Row): string
  kindLabel: string
  /** Kinds of rows, by their names. */
  kinds: Record<Kind, string>
  isOf(row: Row, kind: Kind): boolean
  onOpen(row: Row): void
}

/** A table with a text filter and chips. `/` goes to the filter, `j` and `k` through the rows, and Enter opens one. */
export function FilteredTable<Row, Kind extends string>(props: FilteredTableProps<Row, Kind>) {
  const { filter, onFilter, textLabel, textOf, kindLabel, kinds, isOf, onOpen, rows, ...table } = props
  const { q = '', show } = filter
  const [text, setText] = useState(q)
  const [at, setAt] = useState(0)
  const field = useRef<HTMLInputElement>(null)
  const found = rows.filter((row) => textOf(row).toLowerCase().includes(q.toLowerCase()))
  const shown = found.filter((row) => show === undefined || isOf(row, show))
  useKeys({
    '/': () => field.current?.focus(),
    j: () => setAt(Math.min(shown.length - 1, at + 1)),
    k: () => setAt(Math.max(0, at - 1)),
    Enter: () => shown[at] && onOpen(shown[at]),
  })
  return (
    <>
      <div className="chips">
        <SearchField
          field={field}
          label={textLabel}
          value={text}
          onChange={(next) => {
            setText(next)
            setAt(0)
            onFilter({ q: next || undefined })
          }}
        />
        <ChipGroup
          label={kindLabel}
          value={show}
          all={{ name: 'All', count: found.length }}
          options={Object.entries<string>(kinds).map(([key, name]) => {
            const value = key as Kind
            return { value, name, count: found.filter((row) => isOf(row, value)).length }
          })}
          onChange={(kind) => onFilter({ show: kind })}
        />
      </div>
      <DataTable {...table} rows={shown} at={at} isStacked={false} />
    </>
  )
}
