import type { Config } from '../../config/config.ts'
import type { Egress } from '../../egress/egress.ts'
import { openWallet, type Signer } from '../../wallet.ts'
import { createExternalSigner } from './external-signer.ts'

/** Opens the signer of TRUST_WALLET_ADDRESS; undefined if none is configured. Throws ConfigError. */
export async function openSigner(config: Config, egress: Egress, end?: AbortSignal): Promise<Signer | undefined> {
  const { trustSignerUrl: url, trustWallet } = config
  return url === undefined ? openWallet(config) : createExternalSigner({ url, address: trustWallet!, egress, end })
}
