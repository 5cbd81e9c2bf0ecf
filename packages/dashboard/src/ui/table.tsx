import { Fragment, type Key, type ReactNode, useState } from 'react'
import { Button } from './button.tsx'
import { EmptyState, Fault, Panel } from './panel.tsx'
import css from './table.module.css'

export interface Column<Row> {
  /** Heading. A column of buttons has one for screen readers only. */
  name: ReactNode
  isNameHidden?: boolean
  cell(row: Row): ReactNode
  /** `number` and `word` do not wrap; `name` is bold; `line` takes the width that is left and is cut there. */
  kind?: 'text' | 'number' | 'word' | 'name' | 'line'
  /** Left out on a phone. */
  isWide?: boolean
  /** Left out on a phone and on a tablet. */
  isExtra?: boolean
}

interface DataTableProps<Row> {
  /** Name for screen readers. Default: the title. */
  label?: string
  columns: readonly Column<Row>[]
  /** Undefined while they are loading. */
  rows: readonly Row[] | undefined
  rowKey(row: Row): Key
  /** Index of the row that the keys act on. */
  at?: number
  empty?: ReactNode
  /** Why the rows could not be read, or an action on one of them failed. */
  fault?: unknown
  /** Rows shown before a press on "Show all". A table longer than a few hundred rows slows a phone. */
  maxRows?: number
  /** Whether a phone shows each row as a block rather than a line that scrolls sideways. */
  isStacked?: boolean
  /** Buttons of a row, in its last column. */
  actions?(row: Row): ReactNode
  /** Content below a row, such as its details. */
  below?(row: Row): ReactNode
  title?: ReactNode
  note?: ReactNode
  /** Below the rows, such as how many are not shown. */
  foot?: ReactNode
  end?: ReactNode
}

function columnsOf<Row>({ columns, actions }: DataTableProps<Row>): readonly Column<Row>[] {
  if (!actions) return columns
  const cell = (row: Row) => <span className="chips">{actions(row)}</span>
  return [...columns, { name: 'Actions', isNameHidden: true, cell }]
}

const roomOf = ({ isWide, isExtra }: Pick<Column<unknown>, 'isWide' | 'isExtra'>) =>
  (isExtra ? css.extra : isWide ? css.wide : '') ?? ''

/** A table in a panel. */
export function DataTable<Row>(props: DataTableProps<Row>) {
  const { rows = [], rowKey, at, fault, maxRows = 200, isStacked = true, below, title, note, end, foot } = props
  const { label = typeof title === 'string' ? title : undefined } = props
  const empty = props.rows ? props.empty : !fault && 'Loading…'
  const [isWhole, setWhole] = useState(false)
  const columns = columnsOf(props)
  const shown = isWhole ? rows : rows.slice(0, maxRows)
  const name = title === undefined ? { label } : { title }
  return (
    <Panel {...name} note={note} end={end} scrolls>
      <Fault of={fault} isInPanel />
      {rows.length === 0 && empty && <EmptyState>{empty}</EmptyState>}
      {rows.length > 0 && (
        <table className={`${css.table} ${isStacked ? css.stacked : ''}`} aria-label={title ? label : undefined}>
          <thead>
            <tr>
              {columns.map((column, index) => (
                <th key={index} className={roomOf(column)}>
                  {column.isNameHidden ? <span className="only-read">{column.name}</span> : column.name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row, index) => (
              <Fragment key={rowKey(row)}>
                <tr className={index === at ? css.at : undefined} aria-current={index === at || undefined}>
                  {columns.map((column, place) => (
                    <td key={place} className={`${css[column.kind ?? 'text']} ${roomOf(column)}`}>
                      {column.cell(row)}
                    </td>
                  ))}
                </tr>
                {below?.(row) && (
                  <tr>
                    <td colSpan={columns.length}>{below(row)}</td>
                  </tr>
                )}
              </Fragment>
            ))}
          </tbody>
        </table>
      )}
      {shown.length < rows.length && (
        <EmptyState
          action={<Button onClick={() => setWhole(true)}>Show all {rows.length.toLocaleString('en')}</Button>}
        >
          {(rows.length - shown.length).toLocaleString('en')} more not shown.
        </EmptyState>
      )}
      {foot}
    </Panel>
  )
}

/** Names and values, one a line. A fact that is null, undefined or false is left out. */
export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ReactNode, isCode?: boolean])[] }) {
  return (
    <table className={css.facts}>
      <tbody>
        {facts.map(
          ([name, value, isCode]) =>
            value !== null &&
            value !== undefined &&
            value !== false && (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td className={isCode ? 'mono' : undefined}>{value}</td>
              </tr>
            ),
        )}
      </tbody>
    </table>
  )
}
