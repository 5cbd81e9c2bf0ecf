import { safeJson, sanitize } from '@wardline/text'
import { findService } from '../service/service.ts'
import type { ServiceFlags } from '../service/settings.ts'

/** Prints a link that signs a browser in with the key of the caller. */
export async function printLink(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const link = await call('createLoginLink', {})
  if (flags.json) console.log(safeJson(link, 2))
  else console.log(`Open this link within 10 minutes; it works once:\n\n  ${sanitize(link.url)}\n`)
}
