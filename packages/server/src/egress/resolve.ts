import { isIP } from 'node:net'
import { createNameService, type Resolve, unlessEnded } from './name-service.ts'

export type { Resolve } from './name-service.ts'

/** Resolves names with the files and name servers of the machine. */
export const askSystem: Resolve = createNameService()

/** Resolves with at least one address. Rejects with the reason of `end` if it is aborted first. */
export async function addressesOf(host: string, resolve: Resolve, end: AbortSignal): Promise<string[]> {
  if (isIP(host) !== 0) return [host]
  end.throwIfAborted()
  const addresses = await unlessEnded(resolve(host, end), end)
  if (addresses.length === 0) throw Object.assign(new Error('no address'), { code: 'ENOTFOUND' })
  return addresses
}
