import { type HoneypotDetail, type KeyType, keyTypes, type NewHoneypot } from '@wardline/contract'
import { type Command, Option } from 'commander'
import { Failure } from './exit.ts'
import { findService } from './service.ts'
import { withService } from './service-options.ts'
import type { ServiceFlags } from './service-settings.ts'
import { plainJson, plainText } from './terminal-text.ts'
import { textTable } from './text-table.ts'

interface CreateOptions extends ServiceFlags {
  instance: string
  keyType?: KeyType
  path?: string
  label?: string
}

interface Listed {
  type: string
  keyType?: string
}

const kindOf = ({ type, keyType }: Listed): string => (type === 'api_key' ? `key ${keyType ?? ''}` : 'path').trim()

function requestOf({ instance: instanceId, keyType, path, label }: CreateOptions): NewHoneypot {
  const rest = label === undefined ? {} : { label }
  if (keyType !== undefined) return { instanceId, type: 'api_key', keyType, ...rest }
  if (path !== undefined) return { instanceId, type: 'file_path', path, ...rest }
  throw new Failure('Say what the decoy is: --key-type for a key, or --path for a file.', 'usage', 'usage')
}

async function create(options: CreateOptions): Promise<void> {
  const body = requestOf(options)
  const { call } = await findService(options)
  const created = await call('createHoneypot', { body })
  if (options.json) return console.log(plainJson(created, 2))
  if (created.key === undefined) return console.log(`Decoy ${created.id}: ${plainText(created.path ?? '')}`)
  // The key alone goes to standard output, so that it can be written to where it is planted.
  console.error(`Decoy ${created.id} (${created.keyType}). Its key is shown once:`)
  console.log(keyText(created.key))
}

/** A private key has several lines, which have to stay; anything else in it that a terminal obeys has not. */
const keyText = (key: string): string =>
  key
    .split('\n')
    .map((line) => plainText(line))
    .join('\n')

async function list({ instance, ...flags }: ServiceFlags & { instance?: string }): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('listHoneypots', { query: instance === undefined ? {} : { instance_id: instance } })
  if (flags.json) return console.log(plainJson(reply, 2))
  if (reply.honeypots.length === 0) return console.error('There is no decoy.')
  console.log(textTable(reply.honeypots.map((decoy) => [decoy.id, kindOf(decoy), decoy.createdAt].map(plainText))))
}

function detailText(decoy: HoneypotDetail): string {
  const rows: [string, string | null | undefined][] = [
    ['Id', decoy.id],
    ['Kind', kindOf(decoy)],
    ['Path', decoy.path],
    ['Instance', decoy.instanceId],
    ['Label', decoy.label],
    ['Created', decoy.createdAt],
    ['Deleted', decoy.deletedAt],
    ['Touched', `${decoy.hitCount} times`],
  ]
  const facts = textTable(rows.flatMap(([name, value]) => (value ? [[name, plainText(value)]] : [])))
  const hits = decoy.hits.map(({ at, reporter, tool, ip_address }) =>
    [at, reporter ?? 'unknown', tool ?? '', ip_address ?? ''].map(plainText),
  )
  return hits.length > 0 ? `${facts}\n\n${textTable(hits)}` : facts
}

async function show(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const decoy = await call('getHoneypot', { params: { id } })
  console.log(flags.json ? plainJson(decoy, 2) : detailText(decoy))
}

async function remove(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('deleteHoneypot', { params: { id } })
  console.log(flags.json ? plainJson(reply, 2) : `Decoy ${plainText(reply.id)} is deleted; its hits stay.`)
}

export function addDecoys(program: Command): void {
  const decoys = program.command('decoys').description('keys and paths that nobody has a reason to touch')
  const creating = decoys
    .command('create')
    .description('plant a key or a path for one instance')
    .requiredOption('--instance <id>', 'instance that may reach for it')
    .addOption(new Option('--key-type <kind>', 'a decoy key of this kind').choices(keyTypes).conflicts('path'))
    .option('--path <path>', 'a decoy path; may hold *, ** and ?')
    .option('--label <text>', 'where it is planted')
  withService(creating).action(create)
  const listing = decoys
    .command('list')
    .description('decoys, never their values')
    .option('--instance <id>', 'of this instance')
  withService(listing).action(list)
  withService(decoys.command('show <id>').description('one decoy with its latest hits')).action(show)
  withService(decoys.command('delete <id>').description('remove a decoy; its hits stay')).action(remove)
}
