import { safeJson, sanitize } from '@wardline/text'
import type { AnyRow } from '../events/timeline.ts'

// RFC 4180: a header line, CRLF line ends, quoted fields with doubled quotes. Spreadsheets take a field that begins
// with one of these for a formula, quoted or not (OWASP, CSV Injection; full-width forms count in some locales).
const formula = /^[=+\-@\t\r\n＝＋－＠]/u

const columns = [
  'id',
  'seq',
  'created_at',
  'severity',
  'event_type',
  'instance_id',
  'session_id',
  'source',
  'description',
  'ip_address',
  'metadata',
  // Last, so that the columns before it keep their positions.
  'by_service',
] as const

/** A hostile text can neither become a formula nor leave its field, its line, or the terminal it is shown on. */
function field(value: string | number | null): string {
  if (typeof value === 'number') return `"${value}"`
  // What looks harmless may begin with a formula once the invisible before it is gone.
  const text = sanitize(value ?? '')
  const harmless = formula.test(value ?? '') || formula.test(text) ? `'${text}` : text
  return `"${harmless.replaceAll('"', '""')}"`
}

/** Beside events: what control and audit entries hold besides. */
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

type Column = (typeof columns)[number] | (typeof moreColumns)[number]
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

export const csvHead = headOf(columns)
/** A record of a file that holds events only. */
export const toCsv = (entry: AnyRow): string => recordOf(columns, cellsOf(entry))

const mixedColumns = [...columns, ...moreColumns]
export const mixedCsvHead = headOf(mixedColumns)
/** A record of a file that holds more than events: their columns stay where they are, the others follow. */
export const toMixedCsv = (entry: AnyRow): string => recordOf(mixedColumns, cellsOf(entry))
