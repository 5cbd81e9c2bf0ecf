import { isIP } from 'node:net'
import { createNameService, type Resolve, unlessEnded } from './name-service.ts'

export type { Resolve } from './name-service.ts'

/** As the machine's own files and name servers say. */
export const askSystem: Resolve = createNameService()

/** At least one address. Rejects with the reason of `end` when that comes first. */
export async function addressesOf(host: string, resolve: Resolve, end: AbortSignal): Promise<string[]> {
  if (isIP(host) !== 0) return [host]
  end.throwIfAborted()
  const addresses = await unlessEnded(resolve(host, end), end)
  if (addresses.length === 0) throw Object.assign(new Error('no address'), { code: 'ENOTFOUND' })
  return addresses
}
