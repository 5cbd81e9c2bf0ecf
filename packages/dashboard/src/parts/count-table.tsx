import { dayTimeText, useZone } from '../ui/time.tsx'
import css from './chart.module.css'

interface CountTableProps {
  label: string
  columns: readonly { name: string; counts: readonly number[] }[]
  from: number
  bucketMs: number
}

/** A chart's numbers as a table, newest first. */
export function CountTable({ label, columns, from, bucketMs }: CountTableProps) {
  const zone = useZone()
  const rows = Array.from({ length: columns[0]?.counts.length ?? 0 }, (_, index) => index).reverse()
  return (
    <div className={css.scroller} tabIndex={0} role="group" aria-label={label}>
      <table>
        <thead>
          <tr>
            <th>From</th>
            {columns.map(({ name }) => (
              <th key={name}>{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((index) => (
            <tr key={index}>
              <td>{dayTimeText(zone, from + index * bucketMs)}</td>
              {columns.map(({ name, counts }) => (
                <td key={name}>{counts[index]?.toLocaleString('en')}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
