import { createPrivateKey, createPublicKey } from 'node:crypto'

/** PKCS#8 wrapping of a raw ed25519 seed (RFC 8410), the only way to hand a chosen seed to Node. */
const pkcs8Ed25519Head = Buffer.from('302e020100300506032b657004220420', 'hex')
const keyKind = 'ssh-ed25519'

/**
 * An unencrypted ed25519 private key in OpenSSH's own file format (PROTOCOL.key), which Node cannot export itself.
 * `seed` has 32 bytes, `check` 4.
 */
export function opensshPrivateKey(seed: Uint8Array, check: Uint8Array, comment: string): string {
  const publicKey = publicKeyOf(seed)
  const publicBlob = Buffer.concat([field(keyKind), field(publicKey)])
  const secret = Buffer.concat([
    check,
    check,
    field(keyKind),
    field(publicKey),
    field(Buffer.concat([seed, publicKey])),
    field(comment),
  ])
  const padding = Buffer.from(Array.from({ length: (8 - (secret.length % 8)) % 8 }, (_, index) => index + 1))
  const body = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    field('none'),
    field('none'),
    field(''),
    Buffer.from([0, 0, 0, 1]),
    field(publicBlob),
    field(Buffer.concat([secret, padding])),
  ])
  const lines = body.toString('base64').match(/.{1,70}/g)!
  return ['-----BEGIN OPENSSH PRIVATE KEY-----', ...lines, '-----END OPENSSH PRIVATE KEY-----', ''].join('\n')
}

function publicKeyOf(seed: Uint8Array): Buffer {
  const der = Buffer.concat([pkcs8Ed25519Head, seed])
  const { x } = createPublicKey(createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })).export({ format: 'jwk' })
  return Buffer.from(x!, 'base64url')
}

function field(content: string | Uint8Array): Buffer {
  const bytes = Buffer.from(content)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}
