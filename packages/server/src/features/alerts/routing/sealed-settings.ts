import { createCipheriv, createDecipheriv } from 'node:crypto'
import type { ChannelSettings, ChannelType } from '@wardline/contract'
import { randomSecret } from '../../../ids.ts'
import type { Rotated } from '../channels/channel.ts'

/** A signing secret that was replaced. */
export interface PreviousSecret {
  secret: string
  /** Epoch milliseconds until which it signs too; null for one that the environment names, which has no end. */
  until: number | null
}

/** What a channel's row keeps encrypted. For an attempt take `signingSettings`. */
export interface SecretSettings {
  /** Those of its type. */
  settings: ChannelSettings[ChannelType]
  /** Newest first; only webhooks have any. */
  previous_secrets: readonly PreviousSecret[]
}

/** The settings for an attempt at this instant, with the replaced secrets that still sign. */
export function signingSettings(
  { settings, previous_secrets }: SecretSettings,
  now: number,
): ChannelSettings[ChannelType] & Rotated {
  const signing = previous_secrets.filter(({ until }) => until === null || until > now)
  return signing.length === 0 ? settings : { ...settings, previous_secrets: signing.map(({ secret }) => secret) }
}

/** AES-256-GCM (NIST SP 800-38D): 96 random bits are used once each, for far fewer than 2^32 sealings a key. */
const algorithm = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16
/** Names the form, so that another one can come beside it. */
const version = 'v1'

/** `v1.` and the base64url of nonce, tag and encrypted JSON. It opens only at the channel with this id. */
export function sealSettings(id: string, settings: SecretSettings, key: Buffer): string {
  const nonce = Buffer.from(randomSecret(nonceBytes), 'base64url')
  const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagBytes }).setAAD(Buffer.from(id))
  const encrypted = Buffer.concat([cipher.update(JSON.stringify(settings)), cipher.final()])
  return `${version}.${Buffer.concat([nonce, cipher.getAuthTag(), encrypted]).toString('base64url')}`
}

/** Throws a sentence without content when the text was edited, belongs to another channel or to another key. */
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
    // The cause stays out: what a parser says of a text can show the text.
    throw new Error(
      'The settings cannot be decrypted: they were edited, moved, or encrypted with another master secret.',
    )
  }
}
