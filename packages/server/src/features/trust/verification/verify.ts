import type { Deps } from '../../../deps.ts'
import { createEgress } from '../../../egress/open-egress.ts'
import { uuidV7 } from '../../../ids.ts'
import { Rpc, rpcDeadlineMs } from '../../chain/rpc.ts'
import { notScored, type Score, unifiedScore } from './score.ts'
import { verifiedSubject } from './subject.ts'
import { insertVerification, notePosting } from './verification-queries.ts'
import { checkWallet } from './wallet-check.ts'
import { checkWeb } from './web-check.ts'

async function checkEndpoint({ config, clock }: Deps, url: string, signal?: AbortSignal): Promise<Score> {
  const egress = createEgress({ guarded: true, allow: config.alertAllowCidrs ?? [] })
  try {
    return await checkWeb({ url, egress, now: clock.now(), signal })
  } finally {
    egress.close()
  }
}

async function checkAddress({ config }: Deps, address: string, signal?: AbortSignal): Promise<Score> {
  const egress = createEgress({ guarded: false, allow: [], deadlineMs: rpcDeadlineMs })
  try {
    const rpc = new Rpc(config.trustRpcUrl!, egress, signal)
    const { trustChainId: chainId, trustBadAddressesFile: badAddressesFile } = config
    return await checkWallet({ address, chainId, rpc, badAddressesFile })
  } finally {
    egress.close()
  }
}

/**
 * Checks the service's own endpoint and wallet, and stores the scores, including null for failed checks. Undefined when
 * the signal aborted it.
 */
export async function verifySelf(deps: Deps, signal?: AbortSignal) {
  const subject = verifiedSubject(deps.config)
  const { url, wallet } = subject
  if (url === null && wallet === null)
    throw new Error('There is nothing to verify: set WARDLINE_PUBLIC_URL, or TRUST_WALLET_ADDRESS with TRUST_RPC_URL.')
  const [wav, wv] = await Promise.all([
    url === null ? notScored('No public endpoint is configured.') : checkEndpoint(deps, url, signal),
    wallet === null ? notScored('No wallet is configured.') : checkAddress(deps, wallet, signal),
  ])
  if (signal?.aborted) return undefined
  const at = deps.clock.now()
  const isComplete = (url === null || wav.risk !== null) && (wallet === null || wv.risk !== null)
  const row = {
    id: uuidV7(at),
    at,
    ...subject,
    wav_score: wav.risk,
    wav_notes: wav.notes,
    wv_score: wv.risk,
    wv_notes: wv.notes,
    unified_score: unifiedScore([wav.risk, wv.risk]),
    is_complete: isComplete ? 1 : 0,
    request_hash: null,
    report: null,
  }
  await insertVerification(deps.database.db, row)
  const note = (requestHash: string, report: string) => notePosting(deps.database.db, row.id, requestHash, report)
  return { row, wav, wv, notePosting: note }
}
