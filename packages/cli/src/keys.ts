import type { NewKey, Scope } from '@wardline/contract'
import { scopes } from '@wardline/contract'
import { createKey, listKeys, localActor, revokeKey, rotateKey } from '@wardline/server'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { withLocalDatabase } from './local.ts'

interface CreateOptions {
  scope: Scope
  name: string
  instance?: string[]
  expires?: string
  json?: boolean
}

const seconds = (text: string): number => {
  if (!/^\d{1,7}$/.test(text)) throw new InvalidArgumentError('It must be a whole number of seconds.')
  return Number(text)
}

const collect = (value: string, before: string[] = []) => [...before, value]

function showCreated(created: { id: string; scope: string; key: string }, json: boolean | undefined): void {
  if (json) {
    console.log(JSON.stringify(created))
    return
  }
  console.error(`Key ${created.id} (${created.scope}). It is shown once:`)
  console.log(created.key)
}

async function create({ scope, name, instance, expires, json }: CreateOptions): Promise<void> {
  const request: NewKey = {
    scope,
    name,
    ...(instance ? { instances: instance } : {}),
    ...(expires ? { expires_at: expires } : {}),
  }
  const created = await withLocalDatabase(({ database, clock }) =>
    createKey(database.db, request, localActor('cli'), clock.now()),
  )
  showCreated(created, json)
}

async function list({ json }: { json?: boolean }): Promise<void> {
  const keys = await withLocalDatabase(({ database }) => listKeys(database.db))
  if (json) return console.log(JSON.stringify(keys, null, 2))
  for (const key of keys) {
    const state = key.revoked_at ? 'revoked' : key.expires_at ? `until ${key.expires_at}` : 'valid'
    console.log([key.id, key.scope.padEnd(8), state, key.name, key.instances.join(',')].join('  ').trimEnd())
  }
}

export function addKeys(program: Command): void {
  const keys = program.command('keys').description('keys of agents and people, in the database of this machine')
  keys
    .command('create')
    .addOption(new Option('--scope <scope>', 'what it may do').choices(scopes).makeOptionMandatory())
    .requiredOption('--name <name>', 'who holds it')
    .option('--instance <id>', 'instance id, or a prefix ending in *; repeat it (scope agent)', collect)
    .option('--expires <instant>', 'ISO 8601 instant at which it ends')
    .option('--json', 'as JSON')
    .action(create)
  keys.command('list').option('--json', 'as JSON').action(list)
  keys
    .command('rotate <id>')
    .option('--overlap <seconds>', 'how long the old key stays valid (a day unless told)', seconds)
    .option('--json', 'as JSON')
    .action(async (id: string, { overlap, json }: { overlap?: number; json?: boolean }) => {
      const created = await withLocalDatabase(({ database, clock }) =>
        rotateKey(database.db, id, overlap, localActor('cli'), clock.now()),
      )
      showCreated(created, json)
    })
  keys.command('revoke <id>').action(async (id: string) => {
    await withLocalDatabase(({ database, clock }) => revokeKey(database.db, id, localActor('cli'), clock.now()))
    console.log(`Key ${id} is revoked.`)
  })
}
