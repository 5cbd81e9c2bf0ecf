import type { Deps } from '../../deps.ts'
import type { Chain } from './chain.ts'

/**
 * Opens the on-chain part; undefined when no RPC is configured. Imported on demand, because the chain libraries take
 * 0.2 s and 20 MiB to load. Throws ConfigError, also for a wrong key file that only attestations need: the next one may be
 * due in a week.
 */
export async function openChain(deps: Deps): Promise<Chain | undefined> {
  const { trustRpcUrl, trustWalletKeyFile } = deps.config
  if (trustRpcUrl === undefined) {
    if (trustWalletKeyFile !== undefined) await (await import('../../wallet.ts')).openWallet(deps.config)
    return undefined
  }
  const { createChain } = await import('./chain.ts')
  return createChain(deps)
}
