import { limits } from '@wardline/contract'
import { AppError } from '../errors.ts'

/** Rows that a page without a limit has. */
const defaultRows = 100

/** Rows of a page. Throws AppError `invalid` outside 1 to 1,000. */
export function pageLimit(given: string | undefined): number {
  if (given === undefined) return defaultRows
  const rows = Number(given)
  if (rows < 1 || rows > limits.pageSize) throw new AppError('invalid', `limit must be from 1 to ${limits.pageSize}.`)
  return rows
}
