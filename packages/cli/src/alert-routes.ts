import type { Command } from 'commander'
import { type MatcherOptions, matchOf, matchText, withMatchers } from './alert-matchers.ts'
import { repeated } from './repeated.ts'
import { findService } from './service.ts'
import { withService } from './service-options.ts'
import type { ServiceFlags } from './service-settings.ts'
import { plainJson, plainText } from './terminal-text.ts'
import { textTable } from './text-table.ts'

interface AddOptions extends ServiceFlags, MatcherOptions {
  name: string
  channel: string[]
}

async function list(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('listRoutes', {})
  if (flags.json) return console.log(plainJson(reply, 2))
  if (reply.routes.length === 0) return console.error('There is no route: every channel takes what is severe enough.')
  console.log(
    textTable(
      reply.routes.map(({ id, name, match, channels }) =>
        [id, name, matchText(match), `→ ${channels.join(', ')}`].map(plainText),
      ),
    ),
  )
}

async function add({ name, channel, json, ...options }: AddOptions): Promise<void> {
  const { call } = await findService(options)
  const reply = await call('createRoute', { body: { name, match: matchOf(options), channels: channel } })
  console.log(json ? plainJson(reply, 2) : `Route ${plainText(reply.id)} is added.`)
}

async function remove(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('deleteRoute', { params: { id } })
  console.log(flags.json ? plainJson(reply, 2) : `Route ${plainText(reply.id)} is deleted.`)
}

export function addRoutes(program: Command): void {
  const routes = program
    .command('routes')
    .description('which alerts go to which channels: one that routes name takes only what one of them matches')
  withService(routes.command('list').description('all routes')).action(list)
  const adding = withMatchers(
    routes
      .command('add')
      .description('send matching alerts to some channels; without a condition, every alert')
      .requiredOption('--name <text>', 'what it is for')
      .requiredOption('--channel <id>', 'where they go; repeat it for more', repeated),
  )
  withService(adding).action(add)
  withService(routes.command('delete <id>').description('remove a route')).action(remove)
}
