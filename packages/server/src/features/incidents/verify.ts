import { isUtf8 } from 'node:buffer'
import { type FileHandle, open } from 'node:fs/promises'
import { promisify } from 'node:util'
import { crc32, type InflateRaw, inflateRaw } from 'node:zlib'
import {
  AuditEntry,
  type ChainRow,
  chainRowOf,
  type EvidenceKey,
  genesisHash,
  IncidentManifest,
  incidentKinds,
  parsedJson,
  verifyChainPart,
  type WithheldRow,
} from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import { kidOf } from '../../ed25519.ts'
import { faultFinder } from '../../validation.ts'
import { sha256Hex } from '../audit/chain.ts'
import { isSignedBy } from '../audit/signing-keys.ts'
import {
  type ArchiveSignature,
  blockBytes,
  type ManifestEntry,
  manifestKind,
  manifestMember,
  manifestMemberSize,
  manifestName,
  sha256,
  signatureMember,
  signatureMemberSize,
  signatureName,
  tarFile,
} from './archive.ts'

/** Bounds the memory of a verification, whatever the archive contains. */
const verifyLimits = {
  /** Enough for about 50,000 files of 1 MiB. */
  manifestBytes: 16 * 1024 * 1024,
  /** An export ends a file after the row that exceeds 1 MiB; a row rarely has more than 20 kB. */
  fileBytes: 8 * 1024 * 1024,
} as const

type IncidentVerdict =
  | { ok: true; manifest: IncidentManifest; kid: string; isKnownKey: boolean; rows: Record<string, number> }
  | {
      ok: false
      /** Name of the altered file. */
      entry: string
      /** Index of its first altered block, and the offset of that block in the archive. */
      block?: number
      offset?: number
      detail: string
    }

type Fault = Extract<IncidentVerdict, { ok: false }>

class AlteredArchive extends Error {
  readonly fault: Fault

  constructor(entry: string, detail: string, place: Pick<Fault, 'block' | 'offset'> = {}) {
    super(detail)
    this.fault = { ok: false, entry, detail, ...place }
  }
}

const inflate = promisify(inflateRaw) as unknown as (
  bytes: Buffer,
  options: { maxOutputLength: number; info: true },
) => Promise<{ buffer: Buffer; engine: InflateRaw }>

/** Header and trailer of a gzip member without optional fields (RFC 1952). */
const [gzipHeader, gzipTrailer] = [10, 8]

/**
 * Decompresses a member; undefined unless it is one gzip member to its last byte, and the result has exactly `size`
 * bytes. Programs disagree on what they do with bytes behind a member, so a reader might see other files than `verify`.
 */
async function unpack(member: Buffer, size: number): Promise<Buffer | undefined> {
  const end = member.length - gzipTrailer
  if (end < gzipHeader || member.readUInt32BE(0) !== 0x1f8b0800) return undefined
  try {
    const { buffer, engine } = await inflate(member.subarray(gzipHeader), { maxOutputLength: size, info: true })
    const isWhole = buffer.length === size && gzipHeader + engine.bytesWritten === end
    return isWhole && member.readUInt32LE(end) === crc32(buffer) && member.readUInt32LE(end + 4) === size
      ? buffer
      : undefined
  } catch {
    return undefined
  }
}

async function read(file: FileHandle, offset: number, size: number): Promise<Buffer> {
  const bytes = Buffer.alloc(size)
  let filled = 0
  while (filled < size) {
    const { bytesRead } = await file.read(bytes, filled, size - filled, offset + filled)
    if (bytesRead === 0) break
    filled += bytesRead
  }
  return bytes.subarray(0, filled)
}

/** One form for each time, because verifiers in other languages parse other forms differently. */
const isTime = (text: string): boolean => {
  const at = Date.parse(text)
  return at >= 0 && text.length === 24 && isoTime(at) === text
}

const isBase64url = (text: string, size: number): boolean => {
  const bytes = Buffer.from(text, 'base64url')
  return bytes.length === size && bytes.toString('base64url') === text
}

const tarBlock = 512
const lineFeed = 10
const fileSize = (size: number) => tarBlock + Math.ceil(size / tarBlock) * tarBlock

const signatureFields = 'format,algorithm,kid,public_key,signed_at,manifest_bytes,signature'

/** No other fields: the signature does not cover this file, so anyone could add some. */
const isSignature = (value: object): value is ArchiveSignature => {
  const { format, algorithm, kid, public_key, signed_at, manifest_bytes, signature } = value as ArchiveSignature
  return (
    Object.keys(value).join() === signatureFields &&
    format === 1 &&
    algorithm === 'Ed25519' &&
    [kid, public_key, signed_at, signature].every((text) => typeof text === 'string') &&
    /^[0-9a-f]{16}$/.test(kid) &&
    isBase64url(public_key, 32) &&
    isBase64url(signature, 64) &&
    isTime(signed_at) &&
    Number.isSafeInteger(manifest_bytes) &&
    manifest_bytes > 0 &&
    manifest_bytes <= verifyLimits.manifestBytes
  )
}

/** Reads the signature, which is at the end of the archive and has a fixed size. */
async function readSignature(file: FileHandle, size: number): Promise<ArchiveSignature> {
  const offset = size - signatureMemberSize
  const detail = `The archive does not end with the original ${signatureName}: it was truncated, data was appended, or ${signatureName} was altered.`
  const altered = new AlteredArchive(signatureName, detail, { offset: Math.max(0, offset) })
  if (offset < 0) throw altered
  const member = await read(file, offset, signatureMemberSize)
  const bytes = await unpack(member, signatureMemberSize - 18 - 5)
  const value = bytes && parsedJson(bytes.toString('utf8', tarBlock, 2 * tarBlock))
  if (typeof value !== 'object' || value === null) throw altered
  const { format } = value as { format?: unknown }
  if (Number.isSafeInteger(format) && (format as number) > 1) {
    const newer = `The bundle has format ${format}; this version verifies format 1. Use a newer version.`
    throw new AlteredArchive(signatureName, newer, { offset })
  }
  if (!isSignature(value) || !signatureMember(value).equals(member)) throw altered
  return value
}

const manifestFault = faultFinder(IncidentManifest)
const timeFault = ({ from, to }: IncidentManifest): string | undefined =>
  isTime(from) && isTime(to) ? undefined : 'from and to must be times in UTC with milliseconds.'

async function readManifest(
  file: FileHandle,
  end: number,
  { manifest_bytes, signed_at, public_key, signature }: ArchiveSignature,
): Promise<{ manifest: IncidentManifest; begin: number }> {
  const size = manifestMemberSize(manifest_bytes)
  const begin = end - size
  const altered = (detail: string) => new AlteredArchive(manifestName, detail, { offset: Math.max(0, begin) })
  if (begin < 0) throw altered(`${manifestName} is missing or was cut off.`)
  const member = await read(file, begin, size)
  const bytes = await unpack(member, fileSize(manifest_bytes))
  const text = bytes?.subarray(tarBlock, tarBlock + manifest_bytes)
  if (!text || !manifestMember(text, Date.parse(signed_at)).equals(member))
    throw altered(`${manifestName} was altered.`)
  if (!isSignedBy(public_key, manifestKind, text, signature)) {
    throw altered(`The signature does not match ${manifestName}: one of them was altered.`)
  }
  const manifest = isUtf8(text) ? parsedJson(text.toString('utf8')) : undefined
  const fault = manifestFault(manifest) ?? timeFault(manifest as IncidentManifest)
  if (fault !== undefined) throw altered(`${manifestName} is signed, but not in the format of this version: ${fault}`)
  const found = manifest as IncidentManifest
  if (found.exported_at !== signed_at) throw altered(`${manifestName} and ${signatureName} name different times.`)
  if (found.audit.after.seq === 0 && found.audit.after.hash !== genesisHash) {
    throw altered(`${manifestName} starts the audit log with a hash other than 64 zeros.`)
  }
  return { manifest: found, begin }
}

/** Returns true if the caller trusts the signing key, false if no keys are given. Throws for any other key. */
function judgeKey(signature: ArchiveSignature, keys: readonly EvidenceKey[] | undefined): boolean {
  const { kid, public_key, signed_at } = signature
  const refused = (detail: string) => new AlteredArchive(signatureName, detail)
  if (kidOf(public_key) !== kid) throw refused(`${signatureName} names the key ${kid} but contains another key.`)
  if (keys === undefined) return false
  const known = keys.find((key) => key.kid === kid && key.public_key === public_key)
  if (!known) throw refused(`The archive is signed by key ${kid}, which is not among the given keys.`)
  const at = Date.parse(signed_at)
  if (at < Date.parse(known.valid_from) || (known.valid_until !== null && at > Date.parse(known.valid_until))) {
    throw refused(`The archive is signed at ${signed_at}, when key ${kid} was not valid.`)
  }
  return true
}

/** Throws unless the files are exactly those of an export, in its order: no duplicates, no other files, no gaps. */
function assertEntries({ entries }: IncidentManifest, end: number): void {
  let offset = 0
  let kind = -1
  let number = 0
  for (const { name, size, packed } of entries) {
    const isNextPart = kind >= 0 && name === `${incidentKinds[kind]}/${String(number + 1).padStart(6, '0')}.ndjson`
    if (isNextPart) number += 1
    else {
      kind += 1
      number = 1
      if (name !== `${incidentKinds[kind]}/000001.ndjson`) {
        throw new AlteredArchive(manifestName, `${manifestName} lists files that no export writes in this order.`)
      }
    }
    const isPlaced = packed.offset === offset && packed.size > 0
    const blocks = Math.ceil(packed.size / blockBytes)
    if (
      !isPlaced ||
      size > verifyLimits.fileBytes ||
      packed.size > 2 * verifyLimits.fileBytes ||
      packed.blocks.length !== blocks
    ) {
      throw new AlteredArchive(name, `${manifestName} has an impossible size or offset for ${name}.`)
    }
    offset += packed.size
  }
  if (kind !== incidentKinds.length - 1) throw new AlteredArchive(manifestName, `${manifestName} lists too few files.`)
  if (offset !== end) {
    const detail =
      offset < end
        ? `Data was added between the last file and ${manifestName}.`
        : `The archive is shorter than ${manifestName} says: it was cut off.`
    throw new AlteredArchive(offset < end ? manifestName : (entries.at(-1)?.name ?? manifestName), detail)
  }
}

/** Returns the lines of one file. Throws AlteredArchive with the first block that differs. */
async function readEntry(file: FileHandle, { name, size, sha256: hash, rows, packed }: ManifestEntry, atMs: number) {
  const member = await read(file, packed.offset, packed.size)
  for (const [block, expected] of packed.blocks.entries()) {
    const start = block * blockBytes
    if (sha256(member.subarray(start, start + blockBytes)) === expected) continue
    const offset = packed.offset + start
    const detail = `${name} was altered in block ${block} (bytes ${offset} to ${Math.min(offset + blockBytes, packed.offset + packed.size) - 1} of the archive).`
    throw new AlteredArchive(name, detail, { block, offset })
  }
  const bytes = await unpack(member, fileSize(size))
  const content = bytes?.subarray(tarBlock, tarBlock + size)
  if (!content || !tarFile(name, content, atMs).equals(bytes!) || sha256(content) !== hash) {
    throw new AlteredArchive(name, `${name} differs from its description in ${manifestName}.`)
  }
  if (!isUtf8(content) || (content.length > 0 && content.at(-1) !== lineFeed)) {
    throw new AlteredArchive(name, `${name} does not consist of lines in UTF-8.`)
  }
  const lines = content.toString('utf8').split('\n').slice(0, -1)
  if (lines.length !== rows) throw new AlteredArchive(name, `${name} has ${lines.length} rows instead of ${rows}.`)
  return lines
}

const auditFault = faultFinder(AuditEntry)
const hashForm = /^[0-9a-f]{64}$/

/** A withheld row has nothing but its place: no hash covers other fields of it. */
const isWithheld = (row: Record<string, unknown>): boolean =>
  Object.keys(row).sort().join() === 'hash,prev_hash,seq,withheld' &&
  row.withheld === true &&
  Number.isSafeInteger(row.seq) &&
  typeof row.hash === 'string' &&
  hashForm.test(row.hash)

function auditRow(line: string, name: string): ChainRow | WithheldRow {
  const row = parsedJson(line) as AuditEntry | WithheldRow
  const isRow =
    typeof row === 'object' &&
    row !== null &&
    ('withheld' in row ? isWithheld(row) : auditFault(row) === undefined && isTime(row.at))
  if (!isRow) throw new AlteredArchive(name, `${name} has a row that is not an audit entry.`)
  return 'withheld' in row ? row : chainRowOf(row)
}

async function verifyOpen(file: FileHandle, keys: readonly EvidenceKey[] | undefined): Promise<IncidentVerdict> {
  const { size } = await file.stat()
  const signature = await readSignature(file, size)
  const { manifest, begin } = await readManifest(file, size - signatureMemberSize, signature)
  const isKnownKey = judgeKey(signature, keys)
  assertEntries(manifest, begin)
  const rows: Record<string, number> = Object.fromEntries(incidentKinds.map((kind) => [kind, 0]))
  const atMs = Date.parse(signature.signed_at)
  const isAudit = ({ name }: ManifestEntry) => name.startsWith('audit/')
  async function check(entry: ManifestEntry): Promise<string[]> {
    const lines = await readEntry(file, entry, atMs)
    rows[entry.name.split('/')[0]!]! += lines.length
    return lines
  }
  let part = ''
  async function* auditRows() {
    for (const entry of manifest.entries.filter(isAudit)) {
      part = entry.name
      for (const line of await check(entry)) yield auditRow(line, part)
    }
  }
  let isChainVerified = false
  for (const entry of manifest.entries) {
    if (!isAudit(entry)) await check(entry)
    else if (!isChainVerified) {
      isChainVerified = true
      const { after, last } = manifest.audit
      const end = await verifyChainPart(auditRows(), after, sha256Hex)
      if ('fault' in end) {
        throw new AlteredArchive(part, `The audit log was altered before it was exported. ${end.fault}`)
      }
      if (end.seq !== last.seq || end.hash !== last.hash) {
        throw new AlteredArchive(part, `The audit log ends at entry ${end.seq} instead of ${last.seq}.`)
      }
    }
  }
  return { ok: true, manifest, kid: signature.kid, isKnownKey, rows }
}

/**
 * Verifies an archive without a service: with the trusted keys, or if there are none, with the key in the archive.
 * Rejects if the file is not readable.
 */
export async function verifyIncident(path: string, keys?: readonly EvidenceKey[]): Promise<IncidentVerdict> {
  const file = await open(path, 'r')
  try {
    return await verifyOpen(file, keys)
  } catch (fault) {
    if (fault instanceof AlteredArchive) return fault.fault
    throw fault
  } finally {
    await file.close()
  }
}
