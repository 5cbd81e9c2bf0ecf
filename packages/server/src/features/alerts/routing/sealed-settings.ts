import { createHash } from 'node:crypto'
import type { ChannelSettings, ChannelType } from '@wardline/contract'
import { seal, unseal } from '../../../sealed.ts'
import type { Rotated } from '../channels/channel.ts'

/** A signing secret that was replaced. */
export interface PreviousSecret {
  secret: string
  /** Time until which it also signs, in epoch milliseconds; null for one of the environment, without end. */
  until: number | null
}

/** Encrypted part of a channel's row. For an attempt use `signingSettings`. */
export interface SecretSettings {
  /** Settings of its type. */
  settings: ChannelSettings[ChannelType]
  /** Newest first; only for webhooks. */
  previous_secrets: readonly PreviousSecret[]
}

/** Returns the settings for an attempt at this time, with the replaced secrets that still sign. */
export function signingSettings(
  { settings, previous_secrets }: SecretSettings,
  now: number,
): ChannelSettings[ChannelType] & Rotated {
  const signing = previous_secrets.filter(({ until }) => until === null || until > now)
  return signing.length === 0 ? settings : { ...settings, previous_secrets: signing.map(({ secret }) => secret) }
}

/** Identifies a receiver: ids of one chat mean other messages in another, and buttons of an earlier one decide nothing. */
export const receiverMark = ({ settings }: Pick<SecretSettings, 'settings'>): string =>
  createHash('sha256').update(JSON.stringify(settings)).digest('hex').slice(0, 16)

export const sealSettings = (id: string, settings: SecretSettings, key: Buffer): string => seal(id, settings, key)

/** Throws, without quoting content, if the text was edited or is of another channel or key. */
export const openSettings = (id: string, sealed: string, key: Buffer): SecretSettings => unseal(id, sealed, key)
