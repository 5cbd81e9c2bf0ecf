import {
  type AuditQuery,
  type ChainRow,
  type ChainVerdict,
  chainRowOf,
  type ReplyOf,
  verifyChain,
} from '@wardline/contract'
import { call } from '../data/client.ts'
import { saveFile } from '../data/save-file.ts'
import { sha256Hex } from '../parts/sha256.ts'

export type Entry = ReplyOf<'listAudit'>['entries'][number]

/** Returns the name of the acting key, or the actor without a key. */
export const actorOf = ({ actor, actor_name }: Entry): string => actor_name ?? actor

/** Formats a count such as `1 entry` or `10,412 entries`. */
export const entriesText = (count: number): string =>
  `${count.toLocaleString('en')} ${count === 1 ? 'entry' : 'entries'}`

/** Entries per request: about half a megabyte. */
const pageRows = '1000'

/** Yields all matching entries page by page, oldest first. */
async function* auditPages(filter: AuditQuery, signal?: AbortSignal): AsyncGenerator<Entry[]> {
  let after: string | null = '0'
  while (after !== null) {
    const query: AuditQuery = { ...filter, order: 'oldest', after, limit: pageRows }
    const page: ReplyOf<'listAudit'> = await call('listAudit', { query, ...(signal ? { signal } : {}) })
    yield page.entries
    after = page.next
  }
}

export interface Progress {
  checked: number
  length: number
}

/**
 * Reads the whole log and verifies its chain in the browser, without trusting the service's verdict. Only the end of
 * the log comes from the service, which reveals a missing tail.
 */
export async function verifyHere(onProgress: (progress: Progress) => void, signal: AbortSignal): Promise<ChainVerdict> {
  const { length, head_hash } = await call('getAuditChain', { signal })
  async function* rows(): AsyncGenerator<ChainRow> {
    let checked = 0
    for await (const page of auditPages({}, signal)) {
      for (const entry of page) {
        signal.throwIfAborted()
        yield chainRowOf(entry)
      }
      checked += page.length
      onProgress({ checked, length })
    }
  }
  return verifyChain(rows(), sha256Hex, { seq: length, hash: head_hash, at: 0 })
}

/** About 50 MB, which still fits into a phone's memory. */
const maxExported = 100_000

/** Saves the matching entries as JSON lines, oldest first, as returned by the service. Resolves with the outcome. */
export async function exportAudit(filter: AuditQuery, onProgress: (count: number) => void): Promise<string> {
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
  return count < maxExported
    ? `${entriesText(count)} exported.`
    : `Only the first ${entriesText(count)} exported: narrow the time range.`
}
