import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { crc32, gzip } from 'node:zlib'
import { type SigningKey, signEvidence } from '../audit/signing-keys.ts'

/**
 * The archive of an incident is a tar.gz in which each file is one gzip member, so that every byte belongs to one file.
 * The manifest lists the members with their offsets and the hashes of their blocks, and is followed by its signature.
 * Both are stored without compression, so that a verifier can rebuild them and compare every byte.
 */

const pack = promisify(gzip)

/** The signature covers this line and the manifest. */
export const manifestKind = 'wardline-incident-v1'
export const manifestName = 'manifest.json'
export const signatureName = 'signature.json'

/** Size of a block, for which the manifest has a hash. */
export const blockBytes = 65_536
/** Size of the signature file, padded with spaces, so that a verifier finds it from the end of the archive. */
const signatureBytes = 512
const tarBlock = 512

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

export interface ManifestEntry {
  name: string
  /** Size of the file. */
  size: number
  sha256: string
  rows: number
  /** The gzip member of the file within the archive. */
  packed: { offset: number; size: number; blocks: string[] }
}

export interface ArchiveSignature {
  format: 1
  algorithm: 'Ed25519'
  kid: string
  public_key: string
  signed_at: string
  manifest_bytes: number
  signature: string
}

/** Formats a ustar header (POSIX.1-1988). Names come from the exporter and fit into the field of 100 bytes. */
function tarHeader(name: string, size: number, atMs: number): Buffer {
  const header = Buffer.alloc(tarBlock)
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, '0')}\0`
  header.write(name, 0, 100)
  header.write(octal(0o644, 7), 100)
  header.write(octal(0, 7), 108)
  header.write(octal(0, 7), 116)
  header.write(octal(size, 11), 124)
  header.write(octal(Math.floor(atMs / 1_000), 11), 136)
  header.write('        ', 148)
  header.write('0', 156)
  header.write('ustar\x0000', 257)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return header
}

/** Returns a file as it is stored in a tar archive: header, content and padding. */
export function tarFile(name: string, content: Buffer, atMs: number): Buffer {
  const padding = (tarBlock - (content.length % tarBlock)) % tarBlock
  return Buffer.concat([tarHeader(name, content.length, atMs), content, Buffer.alloc(padding)])
}

/** Maximum length of a stored block of deflate (RFC 1951, section 3.2.4). */
const storedBlock = 65_535

const storedSize = (size: number): number => 18 + size + 5 * Math.max(1, Math.ceil(size / storedBlock))

/** Returns a gzip member (RFC 1952) without compression. */
function storedMember(bytes: Buffer): Buffer {
  const parts: Buffer[] = [Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255])]
  for (let start = 0; start < bytes.length; start += storedBlock) {
    const piece = bytes.subarray(start, start + storedBlock)
    const head = Buffer.alloc(5)
    head[0] = start + storedBlock >= bytes.length ? 1 : 0
    head.writeUInt16LE(piece.length, 1)
    head.writeUInt16LE(~piece.length & 0xffff, 3)
    parts.push(head, piece)
  }
  const end = Buffer.alloc(8)
  end.writeUInt32LE(crc32(bytes), 0)
  end.writeUInt32LE(bytes.length, 4)
  return Buffer.concat([...parts, end])
}

const paddedSize = (size: number) => Math.ceil(size / tarBlock) * tarBlock
export const manifestMemberSize = (manifestBytes: number): number => storedSize(tarBlock + paddedSize(manifestBytes))
export const manifestMember = (manifest: Buffer, atMs: number): Buffer =>
  storedMember(tarFile(manifestName, manifest, atMs))

/** Includes the two empty blocks that end a tar archive. */
export const signatureMemberSize = storedSize(tarBlock + signatureBytes + 2 * tarBlock)
export function signatureMember(signature: ArchiveSignature): Buffer {
  const content = Buffer.from(`${JSON.stringify(signature).padEnd(signatureBytes - 1)}\n`)
  const file = tarFile(signatureName, content, Date.parse(signature.signed_at))
  return storedMember(Buffer.concat([file, Buffer.alloc(2 * tarBlock)]))
}

export const hashesOfBlocks = (member: Buffer): string[] => {
  const hashes: string[] = []
  for (let start = 0; start < member.length; start += blockBytes) {
    hashes.push(sha256(member.subarray(start, start + blockBytes)))
  }
  return hashes
}

/** Creates an archive file by file. It only keeps the manifest entry of each file in memory. */
export class ArchiveWriter {
  readonly entries: ManifestEntry[] = []
  readonly #at: number
  #offset = 0

  constructor(at: number) {
    this.#at = at
  }

  /** Returns the gzip member of one file. zlib compresses in its thread pool. */
  async file(name: string, content: Buffer, rows: number): Promise<Buffer> {
    const member = await pack(tarFile(name, content, this.#at))
    const packed = { offset: this.#offset, size: member.length, blocks: hashesOfBlocks(member) }
    this.entries.push({ name, size: content.length, sha256: sha256(content), rows, packed })
    this.#offset += member.length
    return member
  }

  /** Returns the members of manifest and signature, which end the archive. */
  seal(manifest: Buffer, key: SigningKey): Buffer {
    const signature = signatureMember({
      format: 1,
      algorithm: 'Ed25519',
      kid: key.kid,
      public_key: key.publicKey,
      signed_at: new Date(this.#at).toISOString(),
      manifest_bytes: manifest.length,
      signature: signEvidence(key, manifestKind, manifest),
    })
    return Buffer.concat([manifestMember(manifest, this.#at), signature])
  }
}
