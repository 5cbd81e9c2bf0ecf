import {
  type KeyCreated,
  type KeyQuotas,
  type KeyScope,
  keyScopes,
  limits,
  type NewKey,
  type QuotaName,
  quotaNames,
} from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { Failure } from '../exit.ts'
import { durationOption } from '../instant.ts'
import { repeated, withService } from '../service/options.ts'
import { currentSettings, findService } from '../service/service.ts'
import type { ServiceFlags } from '../service/settings.ts'
import { type KeyStore, remoteKeys } from './key-store.ts'

/** A change of one quota: a number, null for no limit, undefined for the default. */
type QuotaChange = readonly [QuotaName, number | null | undefined]

const isQuota = (name: string): name is QuotaName => (quotaNames as string[]).includes(name)

function readQuota(text: string): QuotaChange {
  const [name = '', value = '', ...rest] = text.split('=')
  if (!isQuota(name)) throw new InvalidArgumentError(`The quotas are ${quotaNames.join(', ')}.`)
  if (value === 'none') return [name, null]
  if (value === 'default') return [name, undefined]
  if (rest.length > 0 || !/^[1-9]\d{0,8}$/.test(value)) {
    throw new InvalidArgumentError(`Write ${name}=<number>, ${name}=none or ${name}=default.`)
  }
  return [name, Number(value)]
}

/** Parser of a repeatable option `<name>=<value>`. */
const readQuotas = (text: string, before: QuotaChange[] = []): QuotaChange[] => [...before, readQuota(text)]

function applyQuotas(quotas: KeyQuotas, changes: readonly QuotaChange[]): KeyQuotas {
  const changed = Object.entries({ ...quotas, ...Object.fromEntries(changes) })
  return Object.fromEntries(changed.filter(([, value]) => value !== undefined))
}

const quotasText = (quotas: KeyQuotas): string =>
  Object.entries(quotas)
    .map(([name, value]) => `${name}=${value ?? 'none'}`)
    .join(',')

interface KeysFlags extends ServiceFlags {
  local?: boolean
}

interface CreateOptions extends KeysFlags {
  scope: KeyScope
  name?: string
  instance?: string[]
  expires?: string
  quota?: QuotaChange[]
  maxInstances?: number
  tags?: string
  approves?: string[]
  tagsScope?: string[]
  models?: string[]
  supervisor?: boolean
}

/**
 * Opens the configured service, else the database of this machine, because the first keys are created before any
 * service is configured.
 */
async function openKeys(flags: KeysFlags): Promise<KeyStore> {
  if (!flags.local && currentSettings(flags).isChosen) return remoteKeys((await findService(flags)).call)
  const { localKeys } = await import('./keys-local.ts')
  return localKeys
}

/** Returns seconds; a number without a unit is one of seconds. */
const overlapSeconds = (text: string): number =>
  /^\d{1,7}$/.test(text) ? Number(text) : Math.round(durationOption(text) / 1_000)

const instanceCount = (text: string): number => {
  const count = Number(text)
  if (/^\d{1,7}$/.test(text) && count >= 1 && count <= limits.maxKeyInstances) return count
  throw new InvalidArgumentError(`It must be a whole number from 1 to ${limits.maxKeyInstances}.`)
}

/** Scope agent requires instances, after which the key is named by default; other scopes require a name. */
function assertGiven({ scope, name, instance }: CreateOptions): void {
  if (scope === 'agent' ? instance : name) return
  const missing = scope === 'agent' ? '--instance <id>' : '--name <name>'
  throw new Failure(`Option ${missing} is required for scope ${scope}.`, 'usage', 'usage')
}

function showCreated(created: KeyCreated, json: boolean | undefined): void {
  if (json) {
    console.log(safeJson(created, 2))
    return
  }
  console.error(`Key ${sanitize(created.id)} (${sanitize(created.scope)}). It is shown once:`)
  console.log(sanitize(created.key))
}

async function create(options: CreateOptions): Promise<void> {
  assertGiven(options)
  const {
    scope,
    name,
    instance,
    expires,
    quota,
    maxInstances,
    tags,
    approves,
    tagsScope,
    models,
    supervisor,
    ...flags
  } = options
  const request: NewKey = {
    scope,
    name,
    instances: instance,
    expires_at: expires,
    quotas: quota && applyQuotas({}, quota),
    max_instances: maxInstances,
    tags: tags?.split(','),
    approves,
    tags_scope: tagsScope,
    models,
    supervises: supervisor,
  }
  const keys = await openKeys(flags)
  showCreated(await keys.create(request), flags.json)
}

async function list(flags: KeysFlags): Promise<void> {
  const keys = await (await openKeys(flags)).list()
  if (flags.json) return console.log(safeJson({ keys }, 2))
  for (const key of keys) {
    const state = key.revoked_at ? 'revoked' : key.expires_at ? `until ${key.expires_at}` : 'valid'
    const cells = [
      key.id,
      key.scope.padEnd(8),
      state,
      key.name,
      key.instances.join(','),
      key.tags.join(','),
      ...(key.approves ? [`approves=${key.approves.join(',')}`] : []),
      ...(key.tags_scope ? [`tags-scope=${key.tags_scope.join(',')}`] : []),
      ...(key.models ? [`models=${key.models.join(',')}`] : []),
      ...(key.supervises ? ['supervisor'] : []),
      quotasText(key.quotas),
    ]
    console.log(
      cells
        .map((cell, index) => (index === 1 ? cell : sanitize(cell)))
        .join('  ')
        .trimEnd(),
    )
  }
}

async function rotate(id: string, { overlap, ...flags }: KeysFlags & { overlap?: number }): Promise<void> {
  const keys = await openKeys(flags)
  showCreated(await keys.rotate(id, overlap), flags.json)
}

async function changeQuotas(id: string, changes: QuotaChange[], flags: KeysFlags): Promise<void> {
  const keys = await openKeys(flags)
  const key = (await keys.list()).find((known) => known.id === id && known.revoked_at === null)
  if (!key)
    throw new Failure(
      `No valid key with id ${sanitize(id)}; \`wardline keys list\` shows them.`,
      'not_found',
      'refused',
    )
  const quotas = applyQuotas(key.quotas, changes)
  await keys.setQuotas(id, quotas)
  if (flags.json) return console.log(safeJson({ ok: true, id, quotas }, 2))
  console.log(`Quotas of key ${id}: ${quotasText(quotas) || 'the defaults'}.`)
}

async function revoke(id: string, flags: KeysFlags): Promise<void> {
  const keys = await openKeys(flags)
  await keys.revoke(id)
  console.log(flags.json ? safeJson({ ok: true, id }, 2) : `Key ${id} is revoked.`)
}

const withPlace = (command: Command): Command =>
  withService(
    command.addOption(
      new Option('--local', 'use the database of this machine, even when a service is configured').conflicts([
        'url',
        'profile',
        'keyFile',
      ]),
    ),
  )

export function addKeys(program: Command): void {
  const keys = program
    .command('keys')
    .description('manage keys: in the database of this machine, or of the service given by --url or a profile')
  const creating = keys
    .command('create')
    .description('create a key; it is shown once')
    .addOption(new Option('--scope <scope>', 'permissions of the key').choices(keyScopes).makeOptionMandatory())
    .option('--name <name>', 'holder of the key; default: the instances of --instance')
    .option('--instance <id>', 'instance id, or a prefix ending in * (scope agent); repeatable', repeated)
    .option('--expires <instant>', 'ISO 8601 instant at which the key expires')
    .addOption(
      new Option('--quota <name=value>', 'a quota of this key, such as events_per_second=1000; repeatable').argParser(
        readQuotas,
      ),
    )
    .option(
      '--max-instances <count>',
      `maximum number of instances that register with the key (scope agent; default: ${limits.keyInstances})`,
      instanceCount,
    )
    .option('--tags <tags>', 'tags of instances that register with the key, separated by commas (scope agent)')
    .option(
      '--approves <tag>',
      'decide only approvals of agents with this tag of operators or keys (scope operator); repeatable; default: all agents',
      repeated,
    )
    .option(
      '--tags-scope <tag>',
      'see and reach only agents with this tag of operators or keys, such as team:payments (scopes viewer and operator); repeatable; default: all agents',
      repeated,
    )
    .option(
      '--models <pattern>',
      'call only these models through the model gateway, such as openai/gpt-5* (scope agent); repeatable; default: all',
      repeated,
    )
    .option(
      '--supervisor',
      'for a supervisor, whose word that it holds an agent counts; the agent must not have the key (scope agent)',
    )
  withPlace(creating).action(create)
  withPlace(keys.command('list', { isDefault: true }).description('list keys, never their secrets')).action(list)
  const rotating = keys
    .command('rotate <id>')
    .description('rotate a key; the old one stays valid for a while')
    .option('--overlap <duration>', 'how long the old key stays valid, such as 1h; default: 24h', overlapSeconds)
  withPlace(rotating).action(rotate)
  const limiting = keys
    .command('quota <id>')
    .description('change quotas of a key; other quotas stay')
    .argument('<name=value...>', `${quotaNames.join(', ')}; a number, none or default`, readQuotas)
  withPlace(limiting).action(changeQuotas)
  withPlace(keys.command('revoke <id>').description('revoke a key permanently')).action(revoke)
}
