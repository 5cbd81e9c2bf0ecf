import type { Config } from '../../../config/config.ts'
import type { VerifiedSubject } from './verification-queries.ts'

/** Returns the service endpoint named in the registration file, and the wallet if an RPC is configured to check it. */
export function verifiedSubject({ publicUrl, trustWallet, trustRpcUrl, trustChainId }: Config): VerifiedSubject {
  return {
    url: publicUrl === undefined ? null : `${publicUrl.replace(/\/$/, '')}/trust`,
    wallet: (trustRpcUrl !== undefined && trustWallet) || null,
    chain_id: trustChainId,
  }
}
