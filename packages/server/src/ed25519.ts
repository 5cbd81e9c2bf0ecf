import { createHash, createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'

/** PKCS #8 prefix of a 32-byte Ed25519 seed (RFC 8410, section 7). */
const pkcs8Prefix = Buffer.from('302e020100300506032b657004220420', 'hex')

interface KeyPair {
  privateKey: KeyObject
  /** The public key, base64url. */
  x: string
  /** First 16 hexadecimal digits of the SHA-256 of the public key. */
  kid: string
}

export const kidOf = (x: string): string =>
  createHash('sha256').update(Buffer.from(x, 'base64url')).digest('hex').slice(0, 16)

/** Returns the Ed25519 key pair (RFC 8032) of a 32-byte seed. */
export function keyPairOf(seed: Buffer): KeyPair {
  const key = Buffer.concat([pkcs8Prefix, seed])
  const privateKey = createPrivateKey({ key, format: 'der', type: 'pkcs8' })
  const { x = '' } = createPublicKey(privateKey).export({ format: 'jwk' })
  return { privateKey, x, kid: kidOf(x) }
}
