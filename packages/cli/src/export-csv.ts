import type { EventRow } from '@wardline/contract'
import { plainJson, plainText } from './terminal-text.ts'

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
] as const

/** A hostile text can neither become a formula nor leave its field, its line, or the terminal it is shown on. */
function field(value: string | number | null): string {
  if (typeof value === 'number') return `"${value}"`
  // What looks harmless may begin with a formula once the invisible before it is gone.
  const text = plainText(value ?? '')
  const harmless = formula.test(value ?? '') || formula.test(text) ? `'${text}` : text
  return `"${harmless.replaceAll('"', '""')}"`
}

export const csvHead = `${columns.join(',')}\r\n`

export function toCsv(row: EventRow): string {
  const values = { ...row, metadata: row.metadata === null ? null : plainJson(row.metadata) }
  return `${columns.map((name) => field(values[name])).join(',')}\r\n`
}
