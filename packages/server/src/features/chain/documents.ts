import { hash as digest } from 'node:crypto'
import { attestationText, canonicalJson, type Json, parsedJson, Type } from '@wardline/contract'
import type { Static } from 'typebox'
import { keccak256, stringToHex } from 'viem/utils'
import { isoTime } from '../../clock.ts'
import { faultFinder } from '../../validation.ts'
import type { SubmittedRecord } from './attestation-sink.ts'
import { dataUriOf } from './data-uri.ts'
import { isSameHex } from './rpc.ts'

/** Where a document is, and the keccak256 of its bytes, as ERC-8004 defines `feedbackHash` and `responseHash`. */
export interface Reference {
  uri: string
  hash: string
}

export const noDocument: Reference = { uri: '', hash: `0x${'0'.repeat(64)}` }

export const hashOf = (text: string): string => keccak256(stringToHex(text)) as string

/** Returns a document about an attestation, embedded in its URI. */
export function documentOf(fields: Record<string, Json>, record: SubmittedRecord): Reference {
  const { hash, at, namespace, period, score, summary, tag, title, type } = record
  const attestation = { hash, at: isoTime(at), namespace, period, score, summary, tag, title, type }
  const text = canonicalJson({ ...fields, attestation })
  return { uri: dataUriOf(text), hash: hashOf(text) }
}

const Text = Type.String()
const Document = Type.Object({
  attestation: Type.Object({
    hash: Type.String({ pattern: '^0x[0-9a-f]{64}$' }),
    at: Text,
    namespace: Text,
    period: Text,
    score: Type.Integer(),
    summary: Text,
    tag: Text,
    title: Text,
    type: Text,
  }),
})
const documentFault = faultFinder(Document)

/** An attestation as a registry refers to it. */
interface Attested {
  /** Hash of the attestation, as the public summary has it. */
  hash: string
  /** Written by an earlier version, without a document. */
  isBare: boolean
}

/**
 * Returns the attestation whose document a registry refers to. Undefined unless the content of the URI has the hash and
 * these fields, and contains an attestation with the hash that it names. Only embedded documents are read: another URI
 * would make a reader ask a server that a stranger chose.
 */
export function attestedBy({ uri, hash }: Reference, fields: Record<string, Json>): Attested | undefined {
  // Earlier versions put the attestation's SHA-256 where ERC-8004 expects a document's hash. It proves as much.
  if (uri === '') return { hash, isBare: true }
  const start = dataUriOf('')
  const content = Buffer.from(uri.startsWith(start) ? uri.slice(start.length) : '', 'base64')
  if (!isSameHex(keccak256(content), hash)) return undefined
  const document = parsedJson(content.toString('utf8')) as Record<string, unknown>
  if (documentFault(document) !== undefined) return undefined
  const { attestation } = document as Static<typeof Document>
  const isRight =
    Object.entries(fields).every(([name, value]) => document[name] === value) &&
    sha256Of(attestation) === attestation.hash
  return isRight ? { hash: attestation.hash, isBare: false } : undefined
}

function sha256Of(attestation: Static<typeof Document>['attestation']): string | undefined {
  try {
    return `0x${digest('sha256', attestationText(attestation), 'hex')}`
  } catch {
    // Half a character is no text, and has no hash.
    return undefined
  }
}
