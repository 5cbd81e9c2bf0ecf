import { csvColumns, type EventColumn } from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import type { AnyRow } from '../events/timeline.ts'

// RFC 4180: a header line, CRLF line endings, quoted fields with doubled quotes. Spreadsheets treat a field that begins
// with one of these as a formula, quoted or not (OWASP, CSV Injection; full-width forms in some locales).
const formula = /^[=+\-@\t\r\n＝＋－＠]/u

/** Escapes a text so that it cannot become a formula, end its field or line, or control a terminal. */
function field(value: string | number | null): string {
  if (typeof value === 'number') return `"${value}"`
  // Removing invisible characters may expose a formula at the start, so the sanitized text is checked too.
  const text = sanitize(value ?? '')
  const harmless = formula.test(value ?? '') || formula.test(text) ? `'${text}` : text
  return `"${harmless.replaceAll('"', '""')}"`
}

/** Columns of control and audit entries that events do not have. */
const moreColumns = [
  'kind',
  'audit_seq',
  'action',
  'target',
  'reason',
  'version',
  'actor',
  'actor_name',
  'scope',
  'before',
  'after',
  'request_id',
  'prev_hash',
  'hash',
] as const

type Column = EventColumn | (typeof moreColumns)[number]
type Cells = Partial<Record<Column, string | number | null>>

const headOf = (names: readonly Column[]): string => `${names.join(',')}\r\n`
const recordOf = (names: readonly Column[], cells: Cells): string =>
  `${names.map((name) => field(cells[name] ?? null)).join(',')}\r\n`

function cellsOf(entry: AnyRow): Cells {
  if (entry.kind === 'event') {
    const { metadata, by_service, ...rest } = entry.row
    const written = metadata === null ? null : safeJson(metadata)
    return { ...rest, kind: 'event', metadata: written, by_service: String(by_service) }
  }
  if (entry.kind === 'control') {
    const { seq, at, instance_id, ...rest } = entry.row
    return { ...rest, audit_seq: seq, created_at: at, instance_id, target: instance_id }
  }
  const { seq, at, ip, before, after, ...rest } = entry.row
  const states = { before: safeJson(before), after: safeJson(after) }
  return { ...rest, ...states, kind: 'audit', audit_seq: seq, created_at: at, ip_address: ip }
}

export const csvHead = headOf(csvColumns)
/** Formats a record of a file with events only. */
export const toCsv = (entry: AnyRow): string => recordOf(csvColumns, cellsOf(entry))

const mixedColumns = [...csvColumns, ...moreColumns]
export const mixedCsvHead = headOf(mixedColumns)
/** Formats a record of a file with several kinds. The columns of events come first, as in `toCsv`. */
export const toMixedCsv = (entry: AnyRow): string => recordOf(mixedColumns, cellsOf(entry))
