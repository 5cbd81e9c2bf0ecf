import type { Deps } from '../../deps.ts'
import type { Chain } from './chain.ts'

/**
 * The on-chain side; undefined where no RPC is configured. What talks to a chain takes 0.2 s and 20 MiB to load, which
 * only those pay who use it. Throws ConfigError.
 */
export async function openChain(deps: Deps): Promise<Chain | undefined> {
  if (deps.config.trustRpcUrl === undefined) return undefined
  const { createChain } = await import('./chain.ts')
  return createChain(deps)
}
