import { limits } from '@wardline/contract'
import { InvalidArgumentError } from 'commander'

interface Page<Row> {
  rows: Row[]
  /** Goes back as `before`; null when there is nothing more. */
  next: string | null
}

/** At most so many rows, over as many pages as it takes: a page may be short while more follow. */
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

/** The same as the parser of an option. */
export function rowLimit(text: string): number {
  const value = Number(text)
  if (!/^\d{1,6}$/.test(text) || value < 1)
    throw new InvalidArgumentError('It must be a whole number from 1 to 999999.')
  return value
}
