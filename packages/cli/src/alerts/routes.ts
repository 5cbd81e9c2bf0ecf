import { type AlertPreview, type Severity, severities } from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import { type Command, Option } from 'commander'
import { repeated, withService } from '../service/options.ts'
import { findService } from '../service/service.ts'
import type { ServiceFlags } from '../service/settings.ts'
import { textTable } from '../text-table.ts'
import { addChannelHint } from './channel-text.ts'
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

interface PreviewOptions extends ServiceFlags {
  severity: Severity
  instance?: string
  reported?: boolean
}

type PreviewedChannel = AlertPreview['channels'][number]

const outcomes: Record<PreviewedChannel['outcome'], string> = {
  receives: 'receives it',
  silenced: 'silenced',
  disabled: 'disabled',
  below_severity: 'below its minimum severity',
  no_route: 'no route to it matches',
  never_alerted: 'never alerted',
}

async function preview(type: string, options: PreviewOptions): Promise<void> {
  const { severity, instance, reported, json } = options
  const { call } = await findService(options)
  const reply = await call('previewAlert', {
    body: { severity, event_type: type, instance_id: instance, ...(reported ? { by_service: false } : {}) },
  })
  if (json) return console.log(safeJson(reply, 2))
  if (reply.channels.length === 0) return console.error(`No alert channel: alerts are not sent. ${addChannelHint}`)
  const names = new Map((await call('listRoutes', {})).routes.map(({ id, name }) => [id, name]))
  const row = ({ channel_id, name, type, outcome, routes }: PreviewedChannel) => {
    const matched = routes.map((id) => names.get(id) ?? id).join(', ')
    return [channel_id, type, name, outcomes[outcome], matched === '' ? '' : `by ${matched}`].map(sanitize)
  }
  console.log(textTable(reply.channels.map(row)))
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
  const previewing = routes
    .command('preview <type>')
    .description('show which channels would receive an alert of this type now, and by which routes; sends nothing')
    .addOption(new Option('--severity <severity>', 'its severity').choices(severities).makeOptionMandatory())
    .option('--instance <id>', 'instance id')
    .option('--reported', 'as if a client had reported it, not the service')
  withService(previewing).action(preview)
  withService(routes.command('delete <id>').description('delete a route')).action(remove)
}
