import { useState } from 'react'
import { useKeys } from './shortcuts.ts'

/** The row of a list that the keys act on. `j` and `k` move to the next and previous one; `keys` act on the row. */
export function useRows<Row>(rows: readonly Row[], keys: Record<string, (row: Row) => void>) {
  const [chosen, setAt] = useState(0)
  // Rows may have gone since it was chosen.
  const within = (index: number) => Math.max(0, Math.min(index, rows.length - 1))
  const at = within(chosen)
  const row = rows[at]
  const actions = Object.entries(keys).map(([key, act]) => [key, () => row !== undefined && act(row)] as const)
  useKeys({
    j: () => setAt(within(at + 1)),
    k: () => setAt(within(at - 1)),
    ...Object.fromEntries(actions),
  })
  return { at, setAt }
}
