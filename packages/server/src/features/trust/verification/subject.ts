import type { Config } from '../../../config.ts'
import type { Subject } from './verification-queries.ts'

/** What the registration file names as the service, and the wallet where a node can be asked about it. */
export function verifiedSubject({ publicUrl, trustWallet, trustRpcUrl, trustChainId }: Config): Subject {
  return {
    url: publicUrl === undefined ? null : `${publicUrl.replace(/\/$/, '')}/trust`,
    wallet: (trustRpcUrl !== undefined && trustWallet) || null,
    chain_id: trustChainId,
  }
}
