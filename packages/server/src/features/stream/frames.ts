import type { EventFields } from '../../db/schema/events.ts'
import { httpLimits } from '../../http/limits.ts'
import { frame } from '../../http/sse.ts'
import { eventRowJson, type OutsideEvent } from '../events/event-row.ts'

/** Frames of consecutive rows, written at once. */
export interface Page {
  bytes: Buffer
  firstSeq: number
  lastSeq: number
  rows: number
}

export const eventFrame = (row: EventFields) => frame(`{"type":"event","data":${eventRowJson(row)}}`, row.seq)

/** Has no `id:`, so that it does not change where a client resumes. */
export const outsideFrame = (row: OutsideEvent) => frame(`{"type":"event","data":${eventRowJson(row)}}`)

/** Returns a page of the rows from `start`: as many as may be queued for one client, but at least one. */
export function pageOf(rows: readonly EventFields[], start = 0): Page | undefined {
  let text = ''
  let bytes = 0
  let end = start
  for (; end < rows.length; end++) {
    const next = eventFrame(rows[end]!)
    bytes += Buffer.byteLength(next)
    if (end > start && bytes > httpLimits.unsentBytesPerStream) break
    text += next
  }
  if (end === start) return undefined
  const [firstSeq, lastSeq] = [rows[start]!.seq, rows[end - 1]!.seq]
  return { bytes: Buffer.from(text), firstSeq, lastSeq, rows: end - start }
}

/** Splits all rows into pages. */
export function* pagesOf(rows: readonly EventFields[]): Generator<Page> {
  for (let start = 0; start < rows.length; ) {
    const page = pageOf(rows, start)!
    yield page
    start += page.rows
  }
}
