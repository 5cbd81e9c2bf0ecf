import type { AuditQuery } from '@wardline/contract'
import { saveFile } from '../service/save-file.ts'
import { auditPages } from './entries.ts'

/** About 50 MB, which still fits into a phone's memory. */
export const maxExported = 100_000

/** Saves all matching entries as JSON lines, oldest first, as returned by the service. Resolves with their number. */
export async function exportAudit(filter: AuditQuery, onProgress: (count: number) => void): Promise<number> {
  const parts: string[] = []
  let count = 0
  for await (const page of auditPages(filter)) {
    parts.push(...page.map((entry) => `${JSON.stringify(entry)}\n`))
    count += page.length
    onProgress(count)
    if (count >= maxExported) break
  }
  const day = new Date().toISOString().slice(0, 10)
  saveFile(new Blob(parts, { type: 'application/x-ndjson' }), `wardline-audit-${day}.ndjson`)
  return count
}
