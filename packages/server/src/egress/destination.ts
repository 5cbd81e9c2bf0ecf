import { ranges } from './address-guard.ts'
import { addressFault, formFault, portFault, targetOf } from './destination-rules.ts'
import { addressesOf, askSystem } from './resolve.ts'

/** The request that creates a channel waits for the answer. */
const resolvedWithinMs = 2_000

/**
 * Why no alerts can be sent to a URL that was given by API: the predicate of a sentence, to be put behind the name of the
 * field, without anything of the URL but an address. Undefined when nothing speaks against it, as for a name that cannot
 * be resolved now: what it leads to is judged again at each try.
 *
 * @param allow CIDRs of private addresses that may be sent to
 */
export async function destinationFault(
  url: string,
  allow: readonly string[],
  { resolve = askSystem, withinMs = resolvedWithinMs } = {},
): Promise<string | undefined> {
  const parsed = URL.parse(url)
  if (parsed === null) return 'must be a URL.'
  const malformed = formFault(parsed)
  if (malformed !== undefined) return malformed
  const target = targetOf(parsed)
  const closed = portFault(target)
  if (closed !== undefined) return closed
  const addresses = await addressesOf(target.host, resolve, AbortSignal.timeout(withinMs)).catch(() => null)
  return addresses === null ? undefined : addressFault(target, addresses, ranges(allow))
}
