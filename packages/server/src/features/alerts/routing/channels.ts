import {
  alertTypes,
  type ChannelChange,
  type ChannelSettings,
  type ChannelType,
  type NewChannel,
  type ReplyOf,
} from '@wardline/contract'
import type { Trx } from '../../../db/database.ts'
import type { Deps } from '../../../deps.ts'
import { AppError, unknownId } from '../../../errors.ts'
import { randomSecret, uuidV7 } from '../../../ids.ts'
import { localActor, recordAction } from '../../audit/audit.ts'
import { destinationHost } from '../channels/all-channels.ts'
import type { Outbox } from '../outbox/outbox.ts'
import { type Changed, givenButtons, type RoutingChange, reductionsOf, removed, runChange } from './changes.ts'
import { changedOptions, defaultOptions, optionColumns, optionsOf } from './channel-options.ts'
import { assertUsable, settingsOfType } from './channel-settings.ts'
import {
  type ChannelRow,
  countChange,
  countChannels,
  deleteChannelRow,
  findChannel,
  forgetChannel,
  insertChannel,
  readLockedChannel,
  restartChannel,
  updateChannel,
} from './queries.ts'
import { quietHoursFault } from './quiet-hours.ts'
import { openSettings, type PreviousSecret, type SecretSettings, sealSettings } from './sealed-settings.ts'

/** Operations on other data of a channel, within the transaction of a change. */
export interface Waiting {
  /** Drops everything pending for the channel. The delivery log keeps the reason. */
  drop(trx: Trx, channelId: string, reason: string): Promise<void>
  /** Alerts delayed by quiet hours are decided again. */
  releaseQuiet(trx: Trx, channelId: string, now: number): Promise<void>
}

export interface ChannelChanging extends RoutingChange {
  waiting: Waiting
}

/** Maximum channels: every alert is compared with every channel. */
const maxChannels = 100
/** Maximum replaced secrets, which all sign every message; few operators rotate more than once a day. */
const maxPreviousSecrets = 4
const secretBytes = 32
const defaultOverlapSeconds = 86_400

const notFound = (id: string) => unknownId('channel', id, 'wardline channels list')
const invalid = (sentence: string) => new AppError('invalid', sentence)
const managedByEnvironment = () =>
  invalid('This channel is set by environment variables: change them and restart the service.')

const newSecret = (): string => `whsec_${Buffer.from(randomSecret(secretBytes), 'base64url').toString('base64')}`

type AnySettings = ChannelSettings[ChannelType]
const hasButtons = (settings: AnySettings | undefined): boolean =>
  settings !== undefined && 'decides' in settings && settings.decides === true

/** The only setting that the audit log may contain. */
const buttonsFact = (settings: AnySettings): Record<string, true> => (hasButtons(settings) ? { decides: true } : {})

function assertButtons({ config }: Pick<Deps, 'config'>, settings: AnySettings): void {
  if (!hasButtons(settings)) return
  if ('chat_id' in settings && settings.approvers === undefined) {
    throw invalid('settings.decides needs settings.approvers: the numbers of the Telegram users whose presses decide.')
  }
  if ('url' in settings && config.publicUrl === undefined) {
    throw invalid('settings.decides needs WARDLINE_PUBLIC_URL, the address that buttons call: set it and restart.')
  }
}

const secretOf = (settings: AnySettings): string | undefined => ('secret' in settings ? settings.secret : undefined)

function assertHours(hours: Parameters<typeof quietHoursFault>[0]): void {
  const fault = quietHoursFault(hours)
  if (fault !== undefined) throw invalid(fault)
}

/** Fields of a row that the audit log may contain. */
const shown = (row: Pick<ChannelRow, 'name' | 'type' | 'destination'>, options: ReturnType<typeof optionsOf>) => ({
  name: row.name,
  type: row.type,
  destination: row.destination,
  ...options,
  quiet_hours: options.quiet_hours === null ? null : { ...options.quiet_hours },
})

/** Runs a change of an existing channel. */
const changeLocked = <Result>(
  change: RoutingChange,
  id: string,
  work: (trx: Trx, row: ChannelRow, now: number) => Promise<Changed<Result>>,
): Promise<Result> =>
  runChange(change, async (trx, now) => {
    const row = await readLockedChannel(trx, id)
    if (!row || !change.table.has(row)) throw notFound(id)
    return work(trx, row, now)
  })

function assertPersonal(type: ChannelType, { personal_mail }: ChannelChange): void {
  if (personal_mail && type !== 'email') throw invalid('personal_mail is only for channels of type email.')
}

function openSettingsOf({ secrets }: Deps, { id, sealed }: ChannelRow): SecretSettings {
  if (sealed === null) throw managedByEnvironment()
  try {
    return openSettings(id, sealed, secrets.channelKey)
  } catch {
    throw invalid('The stored settings of this channel cannot be decrypted: send all again, including the secret.')
  }
}

/** Creates a channel. A generated secret is only in the response. Throws AppError `invalid`. */
export async function createChannel(change: ChannelChanging, request: NewChannel): Promise<ReplyOf<'createChannel'>> {
  const { deps } = change
  const { name, type, settings: given } = request
  assertHours(request.quiet_hours)
  assertButtons(deps, given)
  await assertUsable(given, deps.config.alertAllowCidrs ?? [])
  const secret = type === 'webhook' && secretOf(given) === undefined ? newSecret() : undefined
  const settings = secret === undefined ? given : { ...given, secret }
  assertPersonal(type, request)
  const options = changedOptions(defaultOptions(type), request)
  const id = await runChange(change, async (trx, now) => {
    if ((await countChannels(trx)) >= maxChannels) {
      throw invalid(`There are ${maxChannels} channels, the maximum: delete one first.`)
    }
    const id = uuidV7(now)
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
    const after = { ...shown(row, options), ...buttonsFact(settings) }
    const entry = { action: 'alert_channel.create', target: id, before: null, after }
    return { result: id, reductions: hasButtons(settings) ? [givenButtons(row)] : [], entry }
  })
  return { ok: true, id, ...(secret === undefined ? {} : { secret }) }
}

/** Returns the new settings. A webhook with a new URL keeps its secrets, unless a new secret is given. */
function replaced(deps: Deps, row: ChannelRow, settings: AnySettings): SecretSettings {
  if (row.type !== 'webhook' || secretOf(settings) !== undefined) return { settings, previous_secrets: [] }
  const old = openSettingsOf(deps, row)
  const secret = secretOf(old.settings)
  return {
    settings: { ...settings, ...(secret === undefined ? {} : { secret }) },
    previous_secrets: old.previous_secrets,
  }
}

/**
 * Changes the given fields. Alerts from the time in which a channel is disabled are never sent. Throws AppError `not_found`
 * or `invalid`.
 */
export async function changeChannel(change: ChannelChanging, id: string, request: ChannelChange): Promise<void> {
  const { deps, waiting } = change
  assertHours(request.quiet_hours)
  const settings = request.settings && settingsOfType(await typeOf(change, id), request.settings)
  if (settings !== undefined) {
    assertButtons(deps, settings)
    await assertUsable(settings, deps.config.alertAllowCidrs ?? [])
  }
  await changeLocked(change, id, async (trx, row, now) => {
    if (row.managed_by === 'environment' && (settings !== undefined || request.name !== undefined)) {
      throw managedByEnvironment()
    }
    assertPersonal(row.type, request)
    const before = optionsOf(row)
    const options = changedOptions(before, request)
    const next = {
      name: request.name ?? row.name,
      destination: settings === undefined ? row.destination : destinationHost(row.type, settings),
    }
    const sealed = settings && sealSettings(id, replaced(deps, row, settings), deps.secrets.channelKey)
    await updateChannel(trx, id, { ...optionColumns(options), ...next, ...(sealed === undefined ? {} : { sealed }) })
    if (before.enabled && !options.enabled) await waiting.drop(trx, id, 'The channel was disabled.')
    if (request.quiet_hours !== undefined) await waiting.releaseQuiet(trx, id, now)
    if (!before.enabled && options.enabled) await restartChannel(trx, id)
    const after = {
      ...shown({ ...row, ...next }, options),
      ...(settings === undefined ? {} : { settings_replaced: true, ...buttonsFact(settings) }),
    }
    const reductions = reductionsOf({ ...row, ...before }, { ...row, ...next, ...options }, settings !== undefined)
    return {
      result: undefined,
      reductions: hasButtons(settings) ? [...reductions, givenButtons({ ...row, ...next })] : reductions,
      entry: { action: 'alert_channel.change', target: id, before: shown(row, before), after },
    }
  })
}

/** Read before the transaction, because settings are checked outside of it. The type of a channel never changes. */
async function typeOf({ table, deps }: RoutingChange, id: string): Promise<ChannelType> {
  const row = await findChannel(deps.database.db, id)
  if (!row || !table.has(row)) throw notFound(id)
  if (row.managed_by === 'environment') throw managedByEnvironment()
  return row.type
}

/** Deletes a channel and everything pending for it, also from routes; routes without another channel are deleted. Throws AppError. */
export function deleteChannel(change: ChannelChanging, id: string): Promise<void> {
  return changeLocked(change, id, async (trx, row) => {
    if (row.managed_by === 'environment') throw managedByEnvironment()
    await change.waiting.drop(trx, id, 'The channel was deleted.')
    await deleteChannelRow(trx, id)
    const routes = await forgetChannel(trx, id)
    const options = optionsOf(row)
    const before = { ...shown(row, options), routes }
    return {
      result: undefined,
      reductions: removed({ ...row, ...options }),
      entry: { action: 'alert_channel.delete', target: id, before, after: null },
    }
  })
}

/** Returns the replaced secrets that continue to sign after a rotation, none longer than the newest of them. */
function stillSigning({ settings, previous_secrets }: SecretSettings, until: number, now: number): PreviousSecret[] {
  const secret = secretOf(settings)
  const all = [...(secret === undefined ? [] : [{ secret, until }]), ...previous_secrets]
  return all
    .map((old) => ({ ...old, until: Math.min(old.until ?? until, until) }))
    .filter((old) => old.until > now)
    .slice(0, maxPreviousSecrets)
}

/** Creates and returns a new signing secret; the old one also signs during the overlap. Throws AppError. */
export function rotateChannelSecret(
  change: RoutingChange,
  id: string,
  overlapSeconds = defaultOverlapSeconds,
): Promise<string> {
  const { secrets } = change.deps
  return changeLocked(change, id, async (trx, row, now) => {
    if (row.managed_by === 'environment') throw managedByEnvironment()
    if (row.type !== 'webhook') throw invalid('Only a channel of type webhook has a signing secret.')
    const old = openSettingsOf(change.deps, row)
    const secret = newSecret()
    const until = now + overlapSeconds * 1000
    const next = { settings: { ...old.settings, secret }, previous_secrets: stillSigning(old, until, now) }
    await updateChannel(trx, id, { sealed: sealSettings(id, next, secrets.channelKey) })
    const after = { old_secret_signs_until: until }
    return {
      result: secret,
      reductions: [],
      entry: { action: 'alert_channel.rotate_secret', target: id, before: null, after },
    }
  })
}

/**
 * Disables a channel whose receiver answered that it is gone for good (410), as Standard Webhooks requires, and notifies the
 * other channels. An operator must enable it again.
 */
export async function switchOffGone(
  { database, clock, log }: Pick<Deps, 'database' | 'clock' | 'log'>,
  { outbox, waiting }: { outbox: Outbox; waiting: Waiting },
  id: string,
): Promise<void> {
  const now = clock.now()
  const isFirst = await database.db.transaction().execute(async (trx) => {
    await countChange(trx)
    const row = await readLockedChannel(trx, id)
    if (row?.enabled !== 1) return false
    await updateChannel(trx, id, { enabled: 0 })
    await waiting.drop(trx, id, 'The receiver no longer exists (410).')
    const description = `The receiver of the channel "${row.name}" (${row.type}) no longer exists (410): the channel was disabled.`
    const alert = { severity: 'critical', event_type: alertTypes.channelFailing, instance_id: null } as const
    await outbox.write(trx, [{ ...alert, description }], now)
    const action = { action: 'alert_channel.change', target: id, before: { enabled: true }, after: { enabled: false } }
    await recordAction(database, trx, localActor('system'), { ...action, reason: 'The receiver answered 410.' }, now)
    return true
  })
  if (!isFirst) return
  log.error({ channel: id }, 'the receiver of a channel no longer exists: the channel was disabled')
  outbox.notify()
}
