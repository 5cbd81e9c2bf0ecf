import { type ChainRow, type ChainVerdict, chainRowOf, verifyChain } from '@wardline/contract'
import { sha256Hex } from '../parts/sha256.ts'
import { call } from '../service/client.ts'
import { auditPages } from './entries.ts'

export interface Progress {
  checked: number
  length: number
}

/**
 * Reads the whole log and computes its chain here: what the service says of the chain is not believed. Only where
 * the log ends is the word of the service, so that a missing end shows.
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
