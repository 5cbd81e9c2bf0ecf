import type { AuditEntry, ControlChange, EventRow } from '@wardline/contract'
import { safeJson } from '@wardline/text'
import type { AnyRow } from '../events/timeline.ts'
import { auditToCef, controlToCef, toCef } from './cef.ts'
import { csvHead, mixedCsvHead, toCsv, toMixedCsv } from './csv.ts'
import { auditToEcs, controlToEcs, toEcs } from './ecs.ts'
import { auditToOcsf, controlToOcsf, toOcsf } from './ocsf.ts'

/** Export format. `version` is the product version. */
interface ExportFormat {
  /** Written before the first entry. */
  head: string
  /** Formats an entry, including the line ending. */
  line(entry: AnyRow, version: string): string
}

interface Writers {
  event(row: EventRow, version: string): string
  control(change: ControlChange, version: string): string
  audit(entry: AuditEntry, version: string): string
}

/** Creates a format without a head. */
const formatOf = ({ event, control, audit }: Writers): ExportFormat => ({
  head: '',
  line(entry, version) {
    if (entry.kind === 'event') return event(entry.row, version)
    return entry.kind === 'control' ? control(entry.row, version) : audit(entry.row, version)
  },
})

const asJson = (row: object): string => `${safeJson(row)}\n`

const formats = {
  ndjson: formatOf({ event: asJson, control: asJson, audit: (entry) => asJson({ kind: 'audit', ...entry }) }),
  csv: { head: csvHead, line: toCsv },
  cef: formatOf({ event: toCef, control: controlToCef, audit: auditToCef }),
  ocsf: formatOf({ event: toOcsf, control: controlToOcsf, audit: auditToOcsf }),
  ecs: formatOf({ event: toEcs, control: controlToEcs, audit: auditToEcs }),
} satisfies Record<string, ExportFormat>

const mixedCsv: ExportFormat = { head: mixedCsvHead, line: toMixedCsv }

export type ExportFormatName = keyof typeof formats
export const exportFormatNames = Object.keys(formats) as ExportFormatName[]

/** `isMixed`: the export contains more than events, which needs more columns in CSV. */
export const exportFormat = (name: ExportFormatName, isMixed: boolean): ExportFormat =>
  name === 'csv' && isMixed ? mixedCsv : formats[name]
