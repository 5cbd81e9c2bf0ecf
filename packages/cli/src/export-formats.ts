import type { EventRow } from '@wardline/contract'
import { toCef } from './export-cef.ts'
import { csvHead, toCsv } from './export-csv.ts'
import { toEcs } from './export-ecs.ts'
import { toOcsf } from './export-ocsf.ts'
import { plainJson } from './terminal-text.ts'

export interface ExportFormat {
  /** Stands before the first event. */
  head: string
  /** One event with its line end; `version` is that of the product that writes it. */
  line(row: EventRow, version: string): string
}

export const exportFormats = {
  ndjson: { head: '', line: (row: EventRow) => `${plainJson(row)}\n` },
  csv: { head: csvHead, line: toCsv },
  cef: { head: '', line: toCef },
  ocsf: { head: '', line: toOcsf },
  ecs: { head: '', line: toEcs },
} satisfies Record<string, ExportFormat>

export type ExportFormatName = keyof typeof exportFormats
export const exportFormatNames = Object.keys(exportFormats) as ExportFormatName[]
