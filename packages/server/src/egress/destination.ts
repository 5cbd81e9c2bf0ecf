import { ranges } from './address-guard.ts'
import { addressFault, formFault, portFault, targetOf } from './destination-rules.ts'
import { addressesOf, askSystem } from './resolve.ts'

/** Short, because the request that creates a channel waits for it. */
const resolvedWithinMs = 2_000

/**
 * Returns why alerts must not be sent to a URL from the API, as the predicate of a sentence whose subject is the name
 * of the field. It quotes nothing of the URL except its address. Undefined if the URL is allowed or its name cannot be
 * resolved now; the addresses are checked again at each attempt.
 *
 * @param allow CIDRs of private addresses that are allowed
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
