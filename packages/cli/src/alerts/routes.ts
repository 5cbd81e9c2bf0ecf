import { safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { repeated, withService } from '../service/options.ts'
import { findService } from '../service/service.ts'
import type { ServiceFlags } from '../service/settings.ts'
import { textTable } from '../text-table.ts'
import { type MatcherOptions, matchOf, matchText, withMatchers } from './matchers.ts'

interface AddOptions extends ServiceFlags, MatcherOptions {
  name: string
  channel: string[]
}

async function list(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('listRoutes', {})
  if (flags.json) return console.log(safeJson(reply, 2))
  if (reply.routes.length === 0)
    return console.error('No routes: every channel receives alerts of its minimum severity and above.')
  console.log(
    textTable(
      reply.routes.map(({ id, name, match, channels }) =>
        [id, name, matchText(match), `→ ${channels.join(', ')}`].map(sanitize),
      ),
    ),
  )
}

async function add({ name, channel, json, ...options }: AddOptions): Promise<void> {
  const { call } = await findService(options)
  const reply = await call('createRoute', { body: { name, match: matchOf(options), channels: channel } })
  console.log(json ? safeJson(reply, 2) : `Route ${sanitize(reply.id)} is added.`)
}

async function remove(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('deleteRoute', { params: { id } })
  console.log(flags.json ? safeJson(reply, 2) : `Route ${sanitize(reply.id)} is deleted.`)
}

export function addRoutes(program: Command): void {
  const routes = program
    .command('routes')
    .description('manage routes: a channel named in routes receives only alerts that match one of them')
  withService(routes.command('list', { isDefault: true }).description('list routes')).action(list)
  const adding = withMatchers(
    routes
      .command('add')
      .description('send matching alerts to the given channels; default: every alert')
      .requiredOption('--name <text>', 'purpose of the route')
      .requiredOption('--channel <id>', 'id of a channel; repeatable', repeated),
  )
  withService(adding).action(add)
  withService(routes.command('delete <id>').description('delete a route')).action(remove)
}
