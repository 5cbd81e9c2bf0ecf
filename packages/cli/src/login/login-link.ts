import { safeJson, sanitize } from '@wardline/text'
import { Failure } from '../exit.ts'
import { loginPlace } from '../service/logins.ts'
import { findService } from '../service/service.ts'
import type { ServiceFlags } from '../service/settings.ts'

/** Prints a link that signs a browser in with the key of the caller. */
export async function printLink(flags: ServiceFlags): Promise<void> {
  const { url, keyFrom, call } = await findService(flags)
  if (keyFrom === loginPlace) {
    const ways = 'give one with --key-file, WARDLINE_KEY or a profile'
    throw new Failure(
      `A link signs a browser in with a key, and this command line is logged in at ${url}: ${ways}.`,
      'no_key',
      'unauthorized',
    )
  }
  const link = await call('createLoginLink', {})
  if (flags.json) console.log(safeJson(link, 2))
  else console.log(`Open this link within 10 minutes; it works once:\n\n  ${sanitize(link.url)}\n`)
}
