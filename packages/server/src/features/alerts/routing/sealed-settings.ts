import { createCipheriv, createDecipheriv, createHash } from 'node:crypto'
import type { ChannelSettings, ChannelType } from '@wardline/contract'
import { randomSecret } from '../../../ids.ts'
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

/** AES-256-GCM (NIST SP 800-38D) with a random 96-bit nonce, for far fewer than 2^32 encryptions per key. */
const algorithm = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16
/** Version of the format, so that it can be changed. */
const version = 'v1'

/** Returns `v1.` and the base64url of nonce, tag and encrypted JSON, which only decrypts for the channel with this id. */
export function sealSettings(id: string, settings: SecretSettings, key: Buffer): string {
  const nonce = Buffer.from(randomSecret(nonceBytes), 'base64url')
  const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagBytes }).setAAD(Buffer.from(id))
  const encrypted = Buffer.concat([cipher.update(JSON.stringify(settings)), cipher.final()])
  return `${version}.${Buffer.concat([nonce, cipher.getAuthTag(), encrypted]).toString('base64url')}`
}

/** Decrypts settings. Throws, without quoting content, if the text was edited or is of another channel or key. */
export function openSettings(id: string, sealed: string, key: Buffer): SecretSettings {
  try {
    const [form, content = ''] = sealed.split('.')
    if (form !== version) throw new Error('unknown form')
    const bytes = Buffer.from(content, 'base64url')
    const nonce = bytes.subarray(0, nonceBytes)
    const tag = bytes.subarray(nonceBytes, nonceBytes + tagBytes)
    const decipher = createDecipheriv(algorithm, key, nonce, { authTagLength: tagBytes })
    decipher.setAAD(Buffer.from(id)).setAuthTag(tag)
    const opened = Buffer.concat([decipher.update(bytes.subarray(nonceBytes + tagBytes)), decipher.final()])
    return JSON.parse(opened.toString('utf8'))
  } catch {
    // Without the cause, because the message of a parser may quote the text.
    throw new Error(
      'The settings cannot be decrypted: they were edited, moved, or encrypted with another master secret.',
    )
  }
}
