import { safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { withService } from '../service/options.ts'
import { findService, type Service } from '../service/service.ts'
import type { ServiceFlags } from '../service/settings.ts'

interface View {
  url: string
  /** Of the person, or of the key. */
  id: string
  name: string
  role: string
  /** Tags to whose agents they are limited; null = all agents. */
  tags: string[] | null
  /** Issuer of a person. */
  issuer: string | null
  /** Where the key or login came from. */
  from: string
  /** End of the session; null for keys. */
  expires_at: string | null
}

export async function viewOf(url: string, { call, keyFrom }: Pick<Service, 'call' | 'keyFrom'>): Promise<View> {
  const { key_id, scope, name, tags = null, person } = await call('getSession', {})
  const { sessions } = await call('listOwnSessions', {})
  const expiresAt = sessions.find(({ current }) => current)?.expires_at ?? null
  const who = { id: key_id, name, role: scope, tags, issuer: person?.issuer ?? null }
  return { url, ...who, from: keyFrom, expires_at: expiresAt }
}

export const textOf = ({ url, id, name, role, tags, issuer, from, expires_at }: View): string =>
  [
    `${issuer === null ? 'Key' : 'Person'}: ${sanitize(name)} (${sanitize(id)})`,
    `Role: ${role}${tags ? `, only agents tagged ${sanitize(tags.join(', '))}` : ''}`,
    `Service: ${url}`,
    `By: ${from}${expires_at === null ? '' : `, until ${sanitize(expires_at)}`}`,
  ].join('\n')

async function whoami(flags: ServiceFlags): Promise<void> {
  const service = await findService(flags)
  const view = await viewOf(service.url, service)
  console.log(flags.json ? safeJson(view, 2) : textOf(view))
}

export function addWhoami(program: Command): void {
  const command = program
    .command('whoami')
    .description('print the person or key that commands act for, their role, and until when')
  withService(command).action(whoami)
}
