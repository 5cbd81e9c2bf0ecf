import { limits } from '@wardline/contract'
import { AppError } from '../errors.ts'

/** Rows of a page if the request sets no limit. */
const defaultRows = 100

/** Returns the rows of a page. Throws AppError `invalid` outside 1 to `max`. */
export function pageLimit(given: string | undefined, max: number = limits.pageSize): number {
  if (given === undefined) return defaultRows
  const rows = Number(given)
  if (rows < 1 || rows > max) throw new AppError('invalid', `limit must be from 1 to ${max}.`)
  return rows
}

/** Returns the `seq` bounds of a query; missing parameters stay absent. */
export const cursorBounds = ({ after, before }: { after?: string; before?: string }) => ({
  ...(after === undefined ? {} : { after: Number(after) }),
  ...(before === undefined ? {} : { before: Number(before) }),
})

/** Returns epoch milliseconds. Throws AppError `invalid` for a nonexistent time, such as May 40. */
function readInstant(name: string, text: string): number {
  const time = Date.parse(text)
  if (!Number.isFinite(time)) throw new AppError('invalid', `${name} must be an ISO 8601 instant.`)
  return time
}

/** Returns the time bounds of a query in epoch milliseconds; missing parameters stay absent. */
export const timeBounds = ({ from, to }: { from?: string; to?: string }) => ({
  ...(from === undefined ? {} : { from: readInstant('from', from) }),
  ...(to === undefined ? {} : { to: readInstant('to', to) }),
})
