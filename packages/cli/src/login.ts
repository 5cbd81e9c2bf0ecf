import { safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'

async function login(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const link = await call('createLoginLink', {})
  if (flags.json) console.log(safeJson(link, 2))
  else console.log(`Open this link within 10 minutes; it works once:\n\n  ${sanitize(link.url)}\n`)
}

export function addLogin(program: Command): void {
  const command = program
    .command('login')
    .description('print a link that signs a browser in with your key, once and within 10 minutes')
  withService(command).action(login)
}
