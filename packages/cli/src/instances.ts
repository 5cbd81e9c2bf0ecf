import {
  type Client,
  type FleetInstance,
  type InstanceDetail,
  type InstanceHistory,
  type InstanceList,
  type InstanceStatus,
  instanceStatuses,
  type Lever,
  limits,
  type Mismatch,
  type ReplyOf,
  type ToolServer,
  type ToolServerList,
  type Witness,
  witnesses,
} from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import { type Command, Option } from 'commander'
import { statusText } from './events/event-text.ts'
import { ageText } from './instant.ts'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { textTable } from './text-table.ts'

interface InstancesOptions extends ServiceFlags {
  status?: InstanceStatus
  prefix?: string
  tag?: string
  witness?: Witness
  server?: string
  parent?: string
  onlyAsked?: boolean
}

/** Adds the color of the status last, because escape codes would distort the width of the columns. */
function fleetTable(instances: readonly FleetInstance[]): string {
  const width = Math.max(0, ...instances.map(({ status }) => status.length))
  const lines = textTable(
    instances.map(({ id, name, secondsAgo, suspension_reason, tags }) =>
      [id, `${ageText(secondsAgo)} ago`, name, tags.join(' '), suspension_reason ?? ''].map(sanitize),
    ),
  ).split('\n')
  return instances.map(({ status }, index) => `${statusText(status, width)}  ${lines[index]}`).join('\n')
}

function controlText({ control, status }: InstanceDetail): string {
  const ahead = control.mismatch ? `; the agent reports a NEWER version: ${control.claimed_version}` : ''
  if (control.version === 0) return `never suspended${ahead}`
  const state = status === 'suspended' ? 'suspended' : 'resumed'
  const confirmation = control.confirmed ? `confirmed at ${control.applied_at}` : 'NOT confirmed by the agent'
  return `${state} at ${control.changed_at} (version ${control.version}), ${confirmation}${ahead}`
}

/** Marks tags that only the agent reports, because they are not trusted. */
function tagsText({ tags, operator_tags }: InstanceDetail): string | null {
  if (tags.length === 0) return null
  return tags.map((tag) => (operator_tags.includes(tag) ? tag : `${tag} (by the agent)`)).join(', ')
}

/** The ways in which a suspension reaches an agent, with the last proof of each. */
const leversText = (levers: readonly Lever[]): string =>
  levers
    .map(
      ({ kind, last_proven_at: at }) =>
        `${kind.replace('_', ' ')} (${at === null ? 'not proven yet' : `proven at ${at}`})`,
    )
    .join(', ')

function childrenText({ id, children, descendants }: InstanceDetail): string | null {
  if (children === 0) return null
  const below = descendants > children ? `, ${descendants} with theirs` : ''
  return `${children}${below}; see wardline instances --parent ${id}`
}

function heardText({ witnesses: heard }: InstanceDetail): string | null {
  if (heard.length === 0) return null
  return heard.map(({ witness, since, last_at }) => `${witness} since ${since}, last ${last_at}`).join('; ')
}

function mismatchText(mismatches: readonly Mismatch[]): string | null {
  if (mismatches.length === 0) return null
  return mismatches
    .map(
      ({ missing, calls, since, tools }) =>
        `${calls} calls not reported by ${missing === 'client' ? 'a hook or SDK' : missing} since ${since}: ${tools.join(', ')}`,
    )
    .join('; ')
}

function noteText({ note }: ReplyOf<'getInstance'>): string | null {
  return note && `${note.text} (${note.author_name}, ${note.at})`
}

function detailTable(detail: ReplyOf<'getInstance'>): string {
  const rows: [string, string | null][] = [
    ['Id', detail.id],
    ['Name', detail.name],
    ['Status', detail.status],
    ['Reason', detail.suspension_reason],
    ['Control', controlText(detail)],
    ['Levers', leversText(detail.levers)],
    ['Parent', detail.parent_instance_id],
    ['Children', childrenText(detail)],
    ['Heard by', heardText(detail)],
    ['Mismatch', mismatchText(detail.mismatches)],
    ['Agent type', detail.agent_type],
    ['Version', detail.version],
    ['Fail mode', detail.fail_mode],
    ['Tags', tagsText(detail)],
    ['Note', noteText(detail)],
    ['First seen', detail.first_seen],
    ['Last heartbeat', detail.last_heartbeat],
  ]
  return textTable(rows.flatMap(([name, value]) => (value === null ? [] : [[name, sanitize(value)]])))
}

/** Returns all matching instances from all pages. */
async function readAll(
  call: Client,
  filter: Pick<InstancesOptions, 'status' | 'prefix' | 'tag' | 'witness' | 'server' | 'parent'>,
): Promise<FleetInstance[]> {
  const all: FleetInstance[] = []
  let after: string | undefined
  do {
    const query = { ...filter, limit: String(limits.pageSize), after }
    const { instances, next }: InstanceList = await call('listInstances', { query })
    all.push(...instances)
    after = next ?? undefined
  } while (after !== undefined)
  return all
}

async function list(id: string | undefined, options: InstancesOptions): Promise<void> {
  const { json, status, prefix, tag, witness, server, parent, onlyAsked } = options
  const { call } = await findService(options)
  if (id !== undefined) {
    const detail = await call('getInstance', { params: { instanceId: id } })
    console.log(json ? safeJson(detail, 2) : detailTable(detail))
    return
  }
  const found = await readAll(call, { status, prefix, tag, witness, server, parent })
  const shown = onlyAsked ? found.filter(({ enforcing_levers }) => enforcing_levers === undefined) : found
  if (json) console.log(safeJson({ instances: shown }, 2))
  else if (shown.length > 0) console.log(fleetTable(shown))
  else
    console.error(
      status || prefix || tag || witness || server || parent || onlyAsked
        ? 'No instance matches.'
        : 'No instances: an agent appears with its first heartbeat.',
    )
}

async function remove(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('deleteInstance', { params: { instanceId: id } })
  console.log(flags.json ? safeJson(reply, 2) : `Instance ${sanitize(reply.id)} is deleted; its events are kept.`)
}

async function setTags(id: string, given: string | undefined, flags: ServiceFlags): Promise<void> {
  const tags = given ? given.split(',') : []
  const { call } = await findService(flags)
  const reply = await call('setInstanceTags', { params: { instanceId: id }, body: { tags } })
  if (flags.json) console.log(safeJson(reply, 2))
  else console.log(`Tags of ${sanitize(reply.id)}: ${reply.tags.map(sanitize).join(', ') || 'none'}`)
}

async function setNote(id: string, text: string | undefined, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('setInstanceNote', { params: { instanceId: id }, body: { text: text ?? '' } })
  if (flags.json) console.log(safeJson(reply, 2))
  else console.log(`The note on ${sanitize(reply.id)} is ${reply.note ? 'set' : 'removed'}.`)
}

const bucketsOfHour = (bucketSeconds: number) => Math.max(1, Math.round(3_600 / bucketSeconds))
const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0)

/** Formats one line per hour. Omits hours without expected heartbeats or activity. */
export function historyTable({
  from,
  bucket_seconds,
  heartbeats,
  expected,
  events,
  tool_calls,
}: InstanceHistory): string {
  const buckets = bucketsOfHour(bucket_seconds)
  const rows: string[][] = []
  for (let first = 0; first < heartbeats.length; first += buckets) {
    const of = (counts: readonly number[]) => sum(counts.slice(first, first + buckets))
    if (of(expected) + of(heartbeats) + of(events) === 0) continue
    const start = new Date(Date.parse(from) + first * bucket_seconds * 1_000).toISOString()
    const missing = Math.max(0, of(expected) - of(heartbeats))
    rows.push([
      `${start.slice(0, 16)}Z`,
      `${of(heartbeats)} of ${of(expected)}`,
      String(of(events)),
      String(of(tool_calls)),
      missing > 0 ? `${missing} heartbeats missing` : '',
    ])
  }
  return textTable([['HOUR FROM', 'HEARTBEATS', 'EVENTS', 'TOOL CALLS', ''], ...rows])
}

async function history(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('getInstanceHistory', { params: { instanceId: id } })
  if (flags.json) console.log(safeJson(reply, 2))
  else if (sum([...reply.heartbeats, ...reply.events]) === 0)
    console.error(`No activity of ${sanitize(reply.id)} in the last 24 hours; new activity appears within a minute.`)
  else console.log(historyTable(reply))
}

function configTable({ configs }: ReplyOf<'getConfig'>): string {
  return configs
    .map(({ source, since, items }) => {
      const rows = items.map(({ kind, name, command, address, version, sha256 }) =>
        [kind, name, version ?? '', command ?? address ?? '', sha256.slice(0, 12)].map(sanitize),
      )
      return `${sanitize(source)}, since ${since}\n${textTable([['KIND', 'NAME', 'VERSION', 'RUNS', 'HASH'], ...rows])}`
    })
    .join('\n\n')
}

async function showConfig(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('getConfig', { params: { instanceId: id } })
  if (flags.json) console.log(safeJson(reply, 2))
  else if (reply.configs.length === 0)
    console.error(`Nobody reported the configuration of ${sanitize(id)}: hooks of coding agents and the MCP proxy do.`)
  else console.log(configTable(reply))
}

function serverTable(servers: readonly ToolServer[]): string {
  const rows = servers.flatMap(({ name, variants }) =>
    variants.map(({ version, command, address, agents, first_seen, last_seen }) =>
      [name, String(agents), version ?? '', command ?? address ?? '', first_seen, last_seen].map(sanitize),
    ),
  )
  return textTable([['SERVER', 'AGENTS', 'VERSION', 'RUNS', 'FIRST SEEN', 'LAST SEEN'], ...rows])
}

async function listServers(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const servers: ToolServer[] = []
  let after: string | undefined
  do {
    const page: ToolServerList = await call('listToolServers', { query: { after } })
    servers.push(...page.servers)
    after = page.next ?? undefined
  } while (after !== undefined)
  if (flags.json) return console.log(safeJson({ servers }, 2))
  if (servers.length === 0) return console.error('No agent has reported a tool server: hooks of coding agents do.')
  console.log(serverTable(servers))
  const omitted = servers.reduce((sum, { variants, variant_count }) => sum + variant_count - variants.length, 0)
  if (omitted > 0) console.error(`${omitted} more variants of fewer agents are not listed.`)
}

export function addInstances(program: Command): void {
  const instances = program.command('instances').description('list, show and delete instances')
  const listing = instances
    .command('list', { isDefault: true })
    .argument('[id]', 'show an instance with the details its agent reports')
    .description('list instances by id, with status, last heartbeat and reason of suspension')
    .addOption(new Option('--status <status>', 'only these values').choices(instanceStatuses))
    .option('--prefix <text>', 'only ids with this prefix')
    .option('--tag <tag>', 'only instances with this tag')
    .addOption(new Option('--witness <witness>', 'only instances heard by this').choices(witnesses))
    .option('--server <name>', 'only instances whose configuration names this tool server')
    .option('--parent <id>', 'only instances that this one started, as they report')
    .option('--only-asked', 'only agents that a suspension can only ask to stop: no supervisor, gateway or point')
  withService(listing).action(list)
  const activity = instances
    .command('history <id>')
    .description('show heartbeats received and due, events and tool calls of the last 24 hours, by the hour')
  withService(activity).action(history)
  const configuring = instances
    .command('config <id>')
    .description('show the hooks, permissions, tool servers, skills and instructions of an agent, by name and hash')
  withService(configuring).action(showConfig)
  const servers = instances
    .command('servers')
    .description('list the tool servers that agents report, with versions, what runs and the number of agents')
  withService(servers).action(listServers)
  const tagging = instances
    .command('tag <id> [tags]')
    .description(
      'replace the tags of operators, separated by commas; without tags, remove them. Tags of the agent stay',
    )
  withService(tagging).action(setTags)
  const noting = instances
    .command('note <id> [text]')
    .description('replace the note on an agent, which its page shows; without text, remove it')
  withService(noting).action(setNote)
  const deleting = instances
    .command('delete <id>')
    .description('delete an instance that is not suspended; its events are kept, and a heartbeat registers it again')
  withService(deleting).action(remove)
}
