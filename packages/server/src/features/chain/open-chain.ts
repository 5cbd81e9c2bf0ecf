import type { Deps } from '../../deps.ts'
import type { Chain } from './chain.ts'

/**
 * Opens the on-chain part; undefined when no RPC is configured. Imported on demand, because the chain libraries take
 * 0.2 s and 20 MiB to load. Throws ConfigError.
 */
export async function openChain(deps: Deps): Promise<Chain | undefined> {
  if (deps.config.trustRpcUrl === undefined) return undefined
  const { createChain } = await import('./chain.ts')
  return createChain(deps)
}
