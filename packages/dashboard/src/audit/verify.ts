import { type ChainRow, type ChainVerdict, chainRowOf, verifyChain } from '@wardline/contract'
import { sha256Hex } from '../parts/sha256.ts'
import { call } from '../service/client.ts'
import { auditPages } from './entries.ts'

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
