import { readFileSync } from 'node:fs'
import type { Person, RoleMappings } from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { textTable } from './text-table.ts'

const row = ({ id, name, role, tags, role_by, sessions, signed_in_at }: Person): string[] =>
  [id, name, role ?? '-', tags?.join(',') ?? '-', role_by ?? '-', String(sessions), signed_in_at].map(sanitize)

async function list(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const { people } = await call('listPeople', {})
  if (flags.json) return console.log(safeJson({ people }, 2))
  if (people.length === 0) return console.error('Nobody has signed in at the provider yet.')
  console.log(textTable([['Id', 'Name', 'Role', 'For', 'By', 'Sessions', 'Signed in'], ...people.map(row)]))
}

async function end(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const { ok, ended } = await call('endPersonSessions', { params: { id } })
  if (flags.json) console.log(safeJson({ ok, ended }))
  else console.log(`Sessions ended: ${ended}. While the provider lets them, they can sign in again.`)
}

const rolesText = ({ owner, mappings }: RoleMappings): string =>
  [
    owner === 'file' ? 'From WARDLINE_OIDC_ROLES_FILE:' : 'Stored in the service:',
    ...(mappings.length === 0 ? ['no group has a role'] : []),
    ...mappings.map(({ group, email, role, tags }) =>
      sanitize(`${group ?? `${email} (mail address)`} → ${role}${tags ? ` for ${tags.join(', ')}` : ''}`),
    ),
  ].join('\n')

async function roles(flags: ServiceFlags & { set?: string }): Promise<void> {
  const { call } = await findService(flags)
  const { parseMappings } = await (await import('@wardline/server')).loadSignInCheck()
  const mappings = flags.set === undefined ? undefined : parseMappings(readFileSync(flags.set, 'utf8'), flags.set)
  const known = await call('getRoleMappings', {})
  const answer = mappings ? await call('setRoleMappings', { body: { mappings, version: known.version } }) : known
  console.log(flags.json ? safeJson(answer, 2) : rolesText(answer))
}

export function addPeople(program: Command): void {
  const people = program.command('people').description('list people who sign in at the provider, and their roles')
  withService(people.command('list', { isDefault: true }).description('list people and their open sessions')).action(
    list,
  )
  withService(
    people
      .command('end-sessions')
      .description('end all sessions of a person, and their streams')
      .argument('<id>', 'id of the person, such as person-0a1b2c3d4e5f6g7h'),
  ).action(end)
  withService(
    people
      .command('roles')
      .description('print which groups have which role, or replace them')
      .option('--set <file>', 'YAML file with the new table, such as "- { group: platform, role: operator }"'),
  ).action(roles)
}
