import { limits } from '@wardline/contract'
import { AppError } from '../errors.ts'

/** Rows that a page without a limit has. */
const defaultRows = 100

/** Rows of a page. Throws AppError `invalid` outside 1 to `max`. */
export function pageLimit(given: string | undefined, max: number = limits.pageSize): number {
  if (given === undefined) return defaultRows
  const rows = Number(given)
  if (rows < 1 || rows > max) throw new AppError('invalid', `limit must be from 1 to ${max}.`)
  return rows
}

/** Bounds of seq of a query; what was not given is absent. */
export const cursorBounds = ({ after, before }: { after?: string; before?: string }) => ({
  ...(after === undefined ? {} : { after: Number(after) }),
  ...(before === undefined ? {} : { before: Number(before) }),
})

/** Epoch milliseconds. Throws AppError `invalid` when the text looks like an instant and is none, as the 40th of May. */
function readInstant(name: string, text: string): number {
  const time = Date.parse(text)
  if (!Number.isFinite(time)) throw new AppError('invalid', `${name} must be an ISO 8601 instant.`)
  return time
}

/** Bounds of time of a query, in epoch milliseconds; what was not given is absent. */
export const timeBounds = ({ from, to }: { from?: string; to?: string }) => ({
  ...(from === undefined ? {} : { from: readInstant('from', from) }),
  ...(to === undefined ? {} : { to: readInstant('to', to) }),
})
