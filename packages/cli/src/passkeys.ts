import type { Passkey } from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { textTable } from './text-table.ts'

const row = ({ id, name, created_at, last_used_at }: Passkey): string[] =>
  [id, name, created_at, last_used_at ?? 'never'].map(sanitize)

async function list(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const { passkeys } = await call('listPasskeys', {})
  if (flags.json) return console.log(safeJson({ passkeys }, 2))
  if (passkeys.length === 0) return console.error('No passkeys. The local admin adds them in a browser, at /account.')
  console.log(textTable([['Id', 'Name', 'Added', 'Last used'], ...passkeys.map(row)]))
}

async function remove(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const answer = await call('removePasskey', { params: { id } })
  console.log(flags.json ? safeJson(answer) : 'Passkey removed; its browsers are signed out.')
}

export function addPasskeys(program: Command): void {
  const passkeys = program.command('passkeys').description('list and remove the passkeys of the local admin')
  withService(passkeys.command('list', { isDefault: true }).description('list passkeys')).action(list)
  withService(
    passkeys
      .command('remove')
      .description('remove a passkey and sign its browsers out')
      .argument('<id>', 'id of the passkey, such as passkey-0a1b2c3d4e5f6g7h'),
  ).action(remove)
}
