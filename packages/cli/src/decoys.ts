import {
  type DecoyState,
  decoyStates,
  type HoneypotDetail,
  type KeyType,
  keyTypes,
  type ListedHoneypot,
  limits,
  type NewHoneypot,
} from '@wardline/contract'
import { counted, safeJson, sanitize } from '@wardline/text'
import { type Command, Option } from 'commander'
import { addInventory, keyText } from './decoy-inventory.ts'
import { Failure } from './exit.ts'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { textTable } from './text-table.ts'

interface CreateOptions extends ServiceFlags {
  instance?: string
  keyType?: KeyType
  path?: string
  label?: string
}

interface Listed {
  type: string
  keyType?: string
}

const everyAgent = 'every agent'

const kindOf = ({ type, keyType }: Listed): string => (type === 'api_key' ? `key ${keyType ?? ''}` : 'path').trim()

function requestOf({ instance: instanceId, keyType, path, label }: CreateOptions): NewHoneypot {
  const rest = label === undefined ? {} : { label }
  if (keyType !== undefined) {
    if (instanceId === undefined)
      throw new Failure(
        'Option --instance <id> is required for a decoy key. Only paths are for every agent.',
        'usage',
        'usage',
      )
    return { instanceId, type: 'api_key', keyType, ...rest }
  }
  if (path !== undefined)
    return { ...(instanceId === undefined ? {} : { instanceId }), type: 'file_path', path, ...rest }
  throw new Failure('Option --key-type <kind> or --path <path> is required.', 'usage', 'usage')
}

async function create(options: CreateOptions): Promise<void> {
  const body = requestOf(options)
  const { call } = await findService(options)
  const created = await call('createHoneypot', { body })
  if (options.json) return console.log(safeJson(created, 2))
  if (created.key === undefined)
    return console.log(
      `Decoy ${created.id}${body.instanceId === undefined ? ` for ${everyAgent}` : ''}: ${sanitize(created.path ?? '')}`,
    )
  // Only the key goes to standard output, so that it can be redirected to its place.
  console.error(`Decoy ${created.id} (${created.keyType}). Its key is shown once:`)
  console.log(keyText(created.key))
}

const stateText = ({ state, leaked_outside }: Pick<HoneypotDetail, 'state' | 'leaked_outside'>): string =>
  leaked_outside ? `${state}, leaked outside` : state

/** Returns the cells of a decoy: id, kind, instance, state, hits, place. */
function listed(decoy: ListedHoneypot): string[] {
  const { id, details } = decoy
  if (!details)
    throw new Failure('This server is too old to list where decoys are planted: update it.', 'old_server', 'failed')
  const { instanceId, path, label, hit_count, last_hit_at } = details
  const count = hit_count >= limits.listedHits ? `${limits.listedHits}+ hits` : counted(hit_count, 'hit')
  const hits = last_hit_at ? `${count}, last ${last_hit_at.replace(/\.\d+Z$/, 'Z')}` : 'no hits'
  const planted = [path, label].filter((text) => text).join(', ')
  return [id, kindOf(decoy), instanceId ?? everyAgent, stateText(details), hits, planted]
}

async function list({
  instance,
  state,
  ...flags
}: ServiceFlags & { instance?: string; state?: DecoyState }): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('listHoneypots', {
    query: { include: 'details', state, instance_id: instance },
  })
  if (flags.json) return console.log(safeJson(reply, 2))
  if (reply.honeypots.length === 0 && state !== undefined) return console.error(`No decoys are ${state}.`)
  if (reply.honeypots.length === 0)
    return console.error('No decoys. Plant one: wardline decoys create --instance <id> --key-type aws.')
  console.log(textTable(reply.honeypots.map((decoy) => listed(decoy).map(sanitize))))
}

const marksOf = (marks: Record<'test' | 'ignored' | 'outside', boolean>): string =>
  Object.entries(marks)
    .flatMap(([name, is]) => (is ? [name] : []))
    .join(', ')

function detailText(decoy: HoneypotDetail): string {
  const rows: [string, string | null | undefined][] = [
    ['Id', decoy.id],
    ['Kind', kindOf(decoy)],
    ['Path', decoy.path],
    ['Instance', decoy.instanceId ?? everyAgent],
    ['Label', decoy.label],
    ['Created', decoy.createdAt],
    ['Deleted', decoy.deleted_at],
    ['State', stateText(decoy)],
    ['Planted', decoy.planted && `${decoy.planted.at} by ${decoy.planted.by}: ${decoy.planted.note}`],
    ['File', decoy.planted?.file],
    ['Retired', decoy.retired_at],
    ['Replaced', decoy.replaced_by],
    ['Hits', String(decoy.hit_count)],
  ]
  const facts = textTable(rows.flatMap(([name, value]) => (value ? [[name, sanitize(value)]] : [])))
  const hits = decoy.hits.map(({ at, reporter, tool, ip_address, form, test, ignored, outside }) =>
    [at, reporter ?? 'unknown', tool ?? '', ip_address ?? '', form ?? '', marksOf({ test, ignored, outside })].map(
      sanitize,
    ),
  )
  return hits.length > 0 ? `${facts}\n\n${textTable(hits)}` : facts
}

async function show(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const decoy = await call('getHoneypot', { params: { id } })
  console.log(flags.json ? safeJson(decoy, 2) : detailText(decoy))
}

async function remove(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('deleteHoneypot', { params: { id } })
  console.log(flags.json ? safeJson(reply, 2) : `Decoy ${sanitize(reply.id)} is deleted; its hits are kept.`)
}

export function addDecoys(program: Command): void {
  const decoys = program
    .command('decoys')
    .description('manage decoys: keys and paths that no agent has a reason to use')
  const creating = decoys
    .command('create')
    .description('create a decoy key for an instance, or a decoy path for one or for every agent')
    .option('--instance <id>', 'instance where the decoy is planted; default for a path: every agent')
    .addOption(new Option('--key-type <kind>', 'create a decoy key of this kind').choices(keyTypes).conflicts('path'))
    .option('--path <path>', 'create a decoy path; may contain *, ** and ?')
    .option('--label <text>', 'where the decoy is planted')
  withService(creating).action(create)
  const listing = decoys
    .command('list', { isDefault: true })
    .description('list decoys, never their values')
    .option('--instance <id>', 'only of this instance, without those for every agent')
    .addOption(new Option('--state <state>', 'only in this state').choices(decoyStates))
  withService(listing).action(list)
  withService(decoys.command('show <id>').description('show a decoy with its latest hits')).action(show)
  withService(decoys.command('delete <id>').description('delete a decoy; its hits are kept')).action(remove)
  addInventory(decoys)
}
