import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'

/** All addresses of a name, IPv4 and IPv6. Rejects with an error that has a `code`. */
export type Resolve = (name: string) => Promise<string[]>

/** As every program of the machine would resolve it, /etc/hosts included. */
export const askSystem: Resolve = async (name) => {
  const found = await lookup(name, { all: true, order: 'verbatim' })
  return found.map(({ address }) => address)
}

/** At least one address. Rejects with the reason of `end` when that comes first: the system cannot be told to stop looking. */
export async function addressesOf(host: string, resolve: Resolve, end: AbortSignal): Promise<string[]> {
  if (isIP(host) !== 0) return [host]
  end.throwIfAborted()
  const found = resolve(host)
  const ended = new Promise<never>((_, reject) => {
    end.addEventListener('abort', () => reject(end.reason), { once: true })
  })
  const addresses = await Promise.race([found, ended])
  if (addresses.length === 0) throw Object.assign(new Error('no address'), { code: 'ENOTFOUND' })
  return addresses
}
