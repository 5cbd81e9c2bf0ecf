import { gzipSync } from 'node:zlib'
import type { IncidentManifest } from '@wardline/contract'
import { type SigningKey, signEvidence } from '../packages/server/src/features/audit/signing-keys.ts'
import {
  hashesOfBlocks,
  manifestKind,
  manifestMember,
  manifestMemberSize,
  sha256,
  signatureMember,
  signatureMemberSize,
  tarFile,
} from '../packages/server/src/features/incidents/archive.ts'

type Signature = Parameters<typeof signatureMember>[0]

/** Where the content of an uncompressed member begins: after the headers of gzip, of a stored block, and of tar. */
export const storedHead = 10 + 5 + 512

export interface Parts {
  manifest: IncidentManifest
  signature: Signature
  /** The gzip members of the files, in the order of the manifest. */
  members: Buffer[]
  /** Offset of the member of the manifest, and of that of the signature. */
  manifestAt: number
  signatureAt: number
  manifestBytes: Buffer
}

/** Splits a bundle whose manifest has less than 64 KiB. */
export function partsOf(bundle: Buffer): Parts {
  const signatureAt = bundle.length - signatureMemberSize
  const textAt = signatureAt + storedHead
  const signature: Signature = JSON.parse(bundle.toString('utf8', textAt, textAt + 512))
  const manifestAt = signatureAt - manifestMemberSize(signature.manifest_bytes)
  const manifestBytes = bundle.subarray(manifestAt + storedHead, manifestAt + storedHead + signature.manifest_bytes)
  const manifest: IncidentManifest = JSON.parse(manifestBytes.toString('utf8'))
  const members = manifest.entries.map(({ packed }) => bundle.subarray(packed.offset, packed.offset + packed.size))
  return { manifest, signature, members, manifestAt, signatureAt, manifestBytes }
}

export interface Forgery {
  /** Content of files that are replaced, by their kind. */
  files?: Record<string, string | Buffer>
  /** Members that are replaced; the manifest describes the file as before. */
  members?: Record<string, Buffer>
  /** Changes the copy that is signed. */
  manifest?: (manifest: IncidentManifest) => unknown
  signature?: object
}

/** Level 0, because compressed bytes differ between versions of zlib. */
export const packed = (bytes: string | Buffer): Buffer => gzipSync(bytes, { level: 0 })

/** Makes a bundle in which only the given parts differ, signed again. */
export function forged(parts: Parts, key: SigningKey, change: Forgery): Buffer {
  const manifest = structuredClone(parts.manifest)
  const members = [...parts.members]
  const at = Date.parse(parts.signature.signed_at)
  const placeOf = (kind: string) => manifest.entries.findIndex(({ name }) => name.startsWith(`${kind}/`))
  for (const [kind, content] of Object.entries(change.files ?? {})) {
    const entry = manifest.entries[placeOf(kind)]!
    const bytes = Buffer.from(content)
    const rows = bytes.toString('utf8').split('\n').length - 1
    Object.assign(entry, { size: bytes.length, sha256: sha256(bytes), rows })
    members[placeOf(kind)] = packed(tarFile(entry.name, bytes, at))
  }
  for (const [kind, member] of Object.entries(change.members ?? {})) members[placeOf(kind)] = member
  let offset = 0
  for (const [index, member] of members.entries()) {
    manifest.entries[index]!.packed = { offset, size: member.length, blocks: hashesOfBlocks(member) }
    offset += member.length
  }
  change.manifest?.(manifest)
  const text = Buffer.from(JSON.stringify(manifest))
  const signature = {
    ...parts.signature,
    kid: key.kid,
    public_key: key.publicKey,
    manifest_bytes: text.length,
    signature: signEvidence(key, manifestKind, text),
    ...change.signature,
  }
  return Buffer.concat([...members, manifestMember(text, at), signatureMember(signature)])
}
