import { type KeyCreated, type NewKey, type Scope, scopes } from '@wardline/contract'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { type KeyStore, remoteKeys } from './key-store.ts'
import { repeated } from './repeated.ts'
import { currentSettings, findService } from './service.ts'
import { withService } from './service-options.ts'
import type { ServiceFlags } from './service-settings.ts'
import { plainJson, plainText } from './terminal-text.ts'

interface KeysFlags extends ServiceFlags {
  local?: boolean
}

interface CreateOptions extends KeysFlags {
  scope: Scope
  name: string
  instance?: string[]
  expires?: string
}

/**
 * The service that somebody chose, else the database of this machine: the first keys are made where nothing but the
 * data folder is there yet.
 */
async function openKeys(flags: KeysFlags): Promise<KeyStore> {
  if (!flags.local && currentSettings(flags).isChosen) return remoteKeys((await findService(flags)).call)
  const { localKeys } = await import('./keys-local.ts')
  return localKeys
}

const seconds = (text: string): number => {
  if (!/^\d{1,7}$/.test(text)) throw new InvalidArgumentError('It must be a whole number of seconds.')
  return Number(text)
}

function showCreated(created: KeyCreated, json: boolean | undefined): void {
  if (json) {
    console.log(plainJson(created, 2))
    return
  }
  console.error(`Key ${plainText(created.id)} (${plainText(created.scope)}). It is shown once:`)
  console.log(plainText(created.key))
}

async function create({ scope, name, instance, expires, ...flags }: CreateOptions): Promise<void> {
  const request: NewKey = {
    scope,
    name,
    ...(instance ? { instances: instance } : {}),
    ...(expires ? { expires_at: expires } : {}),
  }
  const keys = await openKeys(flags)
  showCreated(await keys.create(request), flags.json)
}

async function list(flags: KeysFlags): Promise<void> {
  const keys = await (await openKeys(flags)).list()
  if (flags.json) return console.log(plainJson({ keys }, 2))
  for (const key of keys) {
    const state = key.revoked_at ? 'revoked' : key.expires_at ? `until ${key.expires_at}` : 'valid'
    const cells = [key.id, key.scope.padEnd(8), state, key.name, key.instances.join(',')]
    console.log(
      cells
        .map((cell, index) => (index === 1 ? cell : plainText(cell)))
        .join('  ')
        .trimEnd(),
    )
  }
}

async function rotate(id: string, { overlap, ...flags }: KeysFlags & { overlap?: number }): Promise<void> {
  const keys = await openKeys(flags)
  showCreated(await keys.rotate(id, overlap), flags.json)
}

async function revoke(id: string, flags: KeysFlags): Promise<void> {
  const keys = await openKeys(flags)
  await keys.revoke(id)
  console.log(flags.json ? plainJson({ ok: true, id }, 2) : `Key ${id} is revoked.`)
}

const withPlace = (command: Command): Command =>
  withService(
    command.addOption(
      new Option('--local', 'in the database of this machine, whatever else is set').conflicts([
        'url',
        'profile',
        'keyFile',
      ]),
    ),
  )

export function addKeys(program: Command): void {
  const keys = program
    .command('keys')
    .description('keys of agents and people: in the database of this machine, or behind the service that is named')
  const creating = keys
    .command('create')
    .description('create a key; it is shown once')
    .addOption(new Option('--scope <scope>', 'what it may do').choices(scopes).makeOptionMandatory())
    .requiredOption('--name <name>', 'who holds it')
    .option('--instance <id>', 'instance id, or a prefix ending in *; repeat it (scope agent)', repeated)
    .option('--expires <instant>', 'ISO 8601 instant at which it ends')
  withPlace(creating).action(create)
  withPlace(keys.command('list').description('keys, never their secrets')).action(list)
  const rotating = keys
    .command('rotate <id>')
    .description('replace a key; the old one stays valid for a while')
    .option('--overlap <seconds>', 'how long the old key stays valid (a day unless told)', seconds)
  withPlace(rotating).action(rotate)
  withPlace(keys.command('revoke <id>').description('end a key for good')).action(revoke)
}
