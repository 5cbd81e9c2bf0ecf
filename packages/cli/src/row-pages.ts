import { limits } from '@wardline/contract'
import { InvalidArgumentError } from 'commander'

interface Page<Row> {
  rows: Row[]
  /** Value of `before` for the next page; null at the end. */
  next: string | null
}

/** Reads up to `max` rows. A page may be shorter than its limit even if more rows follow. */
export async function readRows<Row>(
  max: number,
  before: string | undefined,
  read: (page: { limit: string; before?: string }) => Promise<Page<Row>>,
): Promise<Page<Row>> {
  const rows: Row[] = []
  let next = before ?? null
  do {
    const limit = String(Math.min(max - rows.length, limits.pageSize))
    const page = await read({ limit, ...(next === null ? {} : { before: next }) })
    rows.push(...page.rows)
    next = page.next
  } while (next !== null && rows.length < max)
  return { rows, next }
}

/** Option parser of the maximum number of rows. */
export function rowLimit(text: string): number {
  const value = Number(text)
  if (!/^\d{1,6}$/.test(text) || value < 1)
    throw new InvalidArgumentError('It must be a whole number from 1 to 999999.')
  return value
}
