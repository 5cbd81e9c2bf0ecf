import { hash } from 'node:crypto'

/** Kind of a digest: of a key, a path, the folder that contains a decoy, or a folder above that. */
export type DigestKind = 'key' | 'path' | 'folder' | 'above'

export type DecoyDigest = (kind: DigestKind, form: string) => string

const blockBytes = 64

const padded = (key: Buffer, pad: number): Buffer => {
  const block = Buffer.alloc(blockBytes, pad)
  for (const [place, byte] of key.entries()) block[place]! ^= byte
  return block
}

/**
 * Makes the digests by which decoys are stored and found: HMAC-SHA256 (RFC 2104) of a form of a key or path, so that
 * the database alone reveals no decoy. Written out over the one-shot hash, because an Hmac object for each of thousands
 * of forms takes eight times as long.
 */
export function createDecoyDigest(key: Buffer): DecoyDigest {
  const block = key.length > blockBytes ? hash('sha256', key, 'buffer') : key
  const inner = padded(block, 0x36)
  const outer = padded(block, 0x5c)
  return (kind, form) => {
    const digest = hash('sha256', Buffer.concat([inner, Buffer.from(`${kind}:${form}`)]), 'buffer')
    return hash('sha256', Buffer.concat([outer, digest]), 'base64url')
  }
}
