import { createCipheriv, createDecipheriv } from 'node:crypto'
import { randomSecret } from './ids.ts'

/** AES-256-GCM (NIST SP 800-38D) with a random 96-bit nonce, for far fewer than 2^32 encryptions per key. */
const algorithm = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16
/** Version of the format, so that it can be changed. */
const version = 'v1'

/** Returns `v1.` and the base64url of nonce, tag and encrypted JSON, which only decrypts for the row with this id. */
export function seal(id: string, value: unknown, key: Buffer): string {
  const nonce = Buffer.from(randomSecret(nonceBytes), 'base64url')
  const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagBytes }).setAAD(Buffer.from(id))
  const encrypted = Buffer.concat([cipher.update(JSON.stringify(value)), cipher.final()])
  return `${version}.${Buffer.concat([nonce, cipher.getAuthTag(), encrypted]).toString('base64url')}`
}

/** Decrypts a value. Throws, without quoting content, if the text was edited or is of another row or key. */
export function unseal<Value>(id: string, sealed: string, key: Buffer): Value {
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
