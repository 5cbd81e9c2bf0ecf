import type { ChannelChange, ChannelSettings, ChannelType, NewChannel, ReplyOf } from '@wardline/contract'
import type { Trx } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { randomSecret, uuidV7 } from '../../ids.ts'
import { type Actor, recordAction } from '../audit/audit.ts'
import { changedOptions, defaultOptions, optionColumns, optionsOf, quietHoursFault } from './channel-options.ts'
import {
  countChange,
  countChannels,
  deleteChannelRow,
  dropWaiting,
  findChannel,
  holdChannel,
  insertChannel,
  releaseQuiet,
  restartChannel,
  updateChannel,
} from './channel-queries.ts'
import { checkSettings, type Validate } from './channel-settings.ts'
import { destinationHost } from './channels/all-channels.ts'
import type { PreviousSecret } from './directory.ts'
import type { ChannelRow } from './directory-queries.ts'
import { held } from './grouping.ts'
import type { ChannelDirectory } from './open-directory.ts'
import { forgetChannel } from './rule-queries.ts'
import { openSettings, type SecretSettings, sealSettings } from './sealed-settings.ts'

/** What a change is made with. */
export interface Change {
  deps: Deps
  directory: ChannelDirectory
  validate: Validate
  actor: Actor
}

/** Every alert is looked at for every channel; a fleet is told by fewer, and by routes. */
const maxChannels = 100
/** Each signs every message; more than one is rotated away from in a day by hardly anybody. */
const maxPreviousSecrets = 4
const secretBytes = 32
const defaultOverlapSeconds = 86_400

const notFound = () => new AppError('not_found', 'There is no channel with this id.')
const invalid = (sentence: string) => new AppError('invalid', sentence)
const managedByEnvironment = () =>
  invalid('This channel stands in the environment of the service: change it there, and start the service anew.')

const newSecret = (): string => `whsec_${Buffer.from(randomSecret(secretBytes), 'base64url').toString('base64')}`

type AnySettings = ChannelSettings[ChannelType]
const secretOf = (settings: AnySettings): string | undefined => ('secret' in settings ? settings.secret : undefined)

function assertHours(hours: Parameters<typeof quietHoursFault>[0]): void {
  const fault = quietHoursFault(hours)
  if (fault !== undefined) throw invalid(fault)
}

/** All of a row that the audit log may show. */
const shown = (row: Pick<ChannelRow, 'name' | 'type' | 'destination'>, options: ReturnType<typeof optionsOf>) => ({
  name: row.name,
  type: row.type,
  destination: row.destination,
  ...options,
  quiet_hours: options.quiet_hours === null ? null : { ...options.quiet_hours },
})

/** Runs a change of one channel that is there, alone among all changes of channels, routes and silences. */
function changeHeld<Result>(
  { deps, directory }: Change,
  id: string,
  work: (trx: Trx, row: ChannelRow) => Promise<Result>,
): Promise<Result> {
  return deps.database.db.transaction().execute(async (trx) => {
    await countChange(trx)
    const row = await holdChannel(trx, id)
    if (!row || !directory.has(row)) throw notFound()
    return work(trx, row)
  })
}

function openHeld({ secrets }: Deps, { id, sealed }: ChannelRow): SecretSettings {
  if (sealed === null) throw managedByEnvironment()
  try {
    return openSettings(id, sealed, secrets.channelKey)
  } catch {
    throw invalid('settings of this channel do not open any more: give all of them anew, the secret too.')
  }
}

/** Creates a channel; a secret that was made is in the answer and nowhere else. Throws AppError `invalid`. */
export async function createChannel(change: Change, request: NewChannel): Promise<ReplyOf<'createChannel'>> {
  const { deps, validate, actor } = change
  const { name, type } = request
  assertHours(request.quiet_hours)
  const given = await checkSettings(type, request.settings, { validate, allow: deps.config.alertAllowCidrs ?? [] })
  const secret = type === 'webhook' && secretOf(given) === undefined ? newSecret() : undefined
  const settings = secret === undefined ? given : { ...given, secret }
  const now = deps.clock.now()
  const id = uuidV7(now)
  const options = changedOptions(defaultOptions(type), request)
  await deps.database.db.transaction().execute(async (trx) => {
    await countChange(trx)
    if ((await countChannels(trx)) >= maxChannels) {
      throw invalid(`There are ${maxChannels} channels, which is the most: delete one first.`)
    }
    const row = {
      ...optionColumns(options),
      id,
      name,
      type,
      managed_by: 'api' as const,
      sealed: sealSettings(id, { settings, previous_secrets: [] }, deps.secrets.channelKey),
      destination: destinationHost(type, settings),
      created_at: now,
    }
    await insertChannel(trx, row)
    const after = shown(row, options)
    await recordAction(trx, actor, { action: 'alert_channel.create', target: id, before: null, after }, now)
  })
  return { ok: true, id, ...(secret === undefined ? {} : { secret }) }
}

/** The settings that replace others. A webhook that moves keeps its secrets, unless it is given another one. */
function replaced(deps: Deps, row: ChannelRow, settings: AnySettings): SecretSettings {
  if (row.type !== 'webhook' || secretOf(settings) !== undefined) return { settings, previous_secrets: [] }
  const old = openHeld(deps, row)
  const secret = secretOf(old.settings)
  return {
    settings: { ...settings, ...(secret === undefined ? {} : { secret }) },
    previous_secrets: old.previous_secrets,
  }
}

/**
 * Changes what is given. Nothing of the time in which a channel is switched off is sent, not even later. Throws AppError
 * `not_found` or `invalid`.
 */
export async function changeChannel(change: Change, id: string, request: ChannelChange): Promise<void> {
  const { deps, validate, actor } = change
  assertHours(request.quiet_hours)
  const now = deps.clock.now()
  const allow = deps.config.alertAllowCidrs ?? []
  const type = request.settings === undefined ? undefined : await typeOf(change, id)
  const settings = type && (await checkSettings(type, request.settings, { validate, allow }))
  await changeHeld(change, id, async (trx, row) => {
    if (row.managed_by === 'environment' && (settings !== undefined || request.name !== undefined)) {
      throw managedByEnvironment()
    }
    const before = optionsOf(row)
    const options = changedOptions(before, request)
    const next = {
      name: request.name ?? row.name,
      destination: settings === undefined ? row.destination : destinationHost(row.type, settings),
    }
    const sealed = settings && sealSettings(id, replaced(deps, row, settings), deps.secrets.channelKey)
    await updateChannel(trx, id, { ...optionColumns(options), ...next, ...(sealed === undefined ? {} : { sealed }) })
    if (before.enabled && !options.enabled) await dropWaiting(trx, id, 'The channel was switched off.')
    if (request.quiet_hours !== undefined) await releaseQuiet(trx, id, held.quiet, now)
    if (!before.enabled && options.enabled) await restartChannel(trx, id)
    const after = {
      ...shown({ ...row, ...next }, options),
      ...(settings === undefined ? {} : { settings_replaced: true }),
    }
    const action = { action: 'alert_channel.change', target: id, before: shown(row, before), after }
    await recordAction(trx, actor, action, now)
  })
}

/** Needed before the transaction, as settings are checked outside of it; the type of a channel never changes. */
async function typeOf({ directory, deps }: Change, id: string): Promise<ChannelType> {
  const row = await findChannel(deps.database.db, id)
  if (!row || !directory.has(row)) throw notFound()
  if (row.managed_by === 'environment') throw managedByEnvironment()
  return row.type
}

/** Deletes a channel and what waits for it; routes forget it, and those that named no other go. Throws AppError. */
export async function deleteChannel(change: Change, id: string): Promise<void> {
  const { deps, actor } = change
  const now = deps.clock.now()
  await changeHeld(change, id, async (trx, row) => {
    if (row.managed_by === 'environment') throw managedByEnvironment()
    await dropWaiting(trx, id, 'The channel was deleted.')
    await deleteChannelRow(trx, id)
    const routes = await forgetChannel(trx, id)
    const before = { ...shown(row, optionsOf(row)), routes }
    await recordAction(trx, actor, { action: 'alert_channel.delete', target: id, before, after: null }, now)
  })
}

/** The secrets that go on signing after the newest of them was replaced: none for longer than that one. */
function stillSigning({ settings, previous_secrets }: SecretSettings, until: number, now: number): PreviousSecret[] {
  const secret = secretOf(settings)
  const all = [...(secret === undefined ? [] : [{ secret, until }]), ...previous_secrets]
  return all
    .map((old) => ({ ...old, until: Math.min(old.until ?? until, until) }))
    .filter((old) => old.until > now)
    .slice(0, maxPreviousSecrets)
}

/** Makes a new signing secret, which is the answer; the old one signs too for the overlap. Throws AppError. */
export function rotateChannelSecret(
  change: Change,
  id: string,
  overlapSeconds = defaultOverlapSeconds,
): Promise<string> {
  const { deps, actor } = change
  const now = deps.clock.now()
  const until = now + overlapSeconds * 1000
  return changeHeld(change, id, async (trx, row) => {
    if (row.managed_by === 'environment') throw managedByEnvironment()
    if (row.type !== 'webhook') throw invalid('Only a channel of type webhook has a signing secret.')
    const old = openHeld(deps, row)
    const secret = newSecret()
    const next = { settings: { ...old.settings, secret }, previous_secrets: stillSigning(old, until, now) }
    await updateChannel(trx, id, { sealed: sealSettings(id, next, deps.secrets.channelKey) })
    const after = { old_secret_signs_until: until }
    await recordAction(trx, actor, { action: 'alert_channel.rotate_secret', target: id, before: null, after }, now)
    return secret
  })
}
