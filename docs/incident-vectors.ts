import crypto from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import os from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { type ChainRow, chainText } from '@wardline/contract'
import { keyPairOf } from '../packages/server/src/ed25519.ts'
import type { SigningKey } from '../packages/server/src/features/audit/signing-keys.ts'
import { sha256, tarFile } from '../packages/server/src/features/incidents/archive.ts'
import { type Forgery, forged, packed, partsOf, storedHead } from './incident-forgery.ts'
import { exportedBundles } from './incident-service.ts'

// `node docs/incident-vectors.ts <folder>` writes the test vectors of docs/reference/incident-bundle.md: bundles that
// the service exports with a fixed clock and key, and altered ones.

// What differs between runs and machines. Random numbers are the same at each call, because background work draws some
// at varying moments; ids still differ by their time.
Object.assign(crypto, {
  randomBytes: (size: number) => Buffer.alloc(size, '30b1c5f7a29e8d46f013', 'hex'),
  randomInt: (min: number, max?: number) => (max === undefined ? 3 : min),
})
Object.assign(os, { hostname: () => 'wardline' })
Object.defineProperty(process, 'pid', { value: 1 })
syncBuiltinESMExports()

interface Fault {
  entry: string
  block?: number
  offset?: number
}
type Expected = { ok: true } | ({ ok: false } & Fault)
interface Vector {
  file: string
  /** File with the keys to trust; none: the key in the bundle. */
  keys: string | null
  is: string
  expected: Expected
}

const folder = process.argv[2]!
mkdirSync(folder, { recursive: true })
const { bundles, keys, key } = await exportedBundles()
const vectors: Vector[] = []

const again = (name: string, is: string, expected: Expected, keys: string | null = 'keys.json'): void =>
  void vectors.push({ file: `${name}.tar.gz`, keys, is, expected })

function write(name: string, is: string, bytes: Buffer, expected: Expected): void {
  writeFileSync(join(folder, `${name}.tar.gz`), bytes)
  again(name, is, expected)
}

/** What a bundle says, without how it is compressed, which differs between versions of zlib. */
function contentOf(bundle: Buffer): string {
  const { manifest } = partsOf(bundle)
  return JSON.stringify({ ...manifest, entries: manifest.entries.map((entry) => ({ ...entry, packed: undefined })) })
}

for (const [name, is] of [
  ['valid', 'The bundle of this page; its audit entries begin and end with withheld ones'],
  ['valid-genesis', 'Begins with the first entry of the audit log'],
  ['valid-empty', 'No audit entry: `audit.after` and `audit.last` are the same'],
] as const) {
  const stored = join(folder, `${name}.tar.gz`)
  if (existsSync(stored) && contentOf(readFileSync(stored)) === contentOf(bundles[name])) {
    bundles[name] = readFileSync(stored)
  }
  write(name, is, bundles[name], { ok: true })
}

const bundle = bundles.valid
const parts = partsOf(bundle)
const { manifest, signature, members, manifestAt, signatureAt } = parts
const placeOf = (kind: string) => manifest.entries.findIndex(({ name }) => name === `${kind}/000001.ndjson`)
const entryOf = (kind: string) => manifest.entries[placeOf(kind)]!
const contentsOf = (kind: string) => gunzipSync(members[placeOf(kind)]!).subarray(512, 512 + entryOf(kind).size)

const refused = (name: string, is: string, bytes: Buffer, fault: Fault) =>
  write(name, is, bytes, { ok: false, ...fault })
const inBlock = (kind: string): Fault => ({ entry: entryOf(kind).name, block: 0, offset: entryOf(kind).packed.offset })

for (const [name, is, offset, fault] of [
  ['bit-in-events', '`events/000001.ndjson`', entryOf('events').packed.offset + 100, inBlock('events')],
  ['bit-in-gzip-header', 'the time in the gzip header of `keys`', entryOf('keys').packed.offset + 4, inBlock('keys')],
  ['bit-in-manifest', '`manifest.json`', manifestAt + storedHead + 20, { entry: 'manifest.json', offset: manifestAt }],
  [
    'bit-in-signature',
    '`signature.json`',
    signatureAt + storedHead + 30,
    { entry: 'signature.json', offset: signatureAt },
  ],
] as const) {
  const bytes = Buffer.from(bundle)
  bytes[offset]! ^= 1
  refused(name, `One bit of ${is} is flipped`, bytes, fault)
}
const atEnd = (bytes: Buffer): Fault => ({
  entry: 'signature.json',
  offset: Math.max(0, bytes.length - (bundle.length - signatureAt)),
})
for (const [name, is, bytes] of [
  ['empty', 'No bytes', Buffer.alloc(0)],
  ['cut-last-byte', 'The last byte is missing', bundle.subarray(0, -1)],
  ['cut-half', 'The second half is missing', bundle.subarray(0, bundle.length >> 1)],
  ['appended-byte', 'A zero byte is appended', Buffer.concat([bundle, Buffer.alloc(1)])],
  ['appended-member', 'A gzip member is appended', Buffer.concat([bundle, packed('x')])],
] as const) {
  refused(name, is, bytes, atEnd(bytes))
}
const [head, tail] = [bundle.subarray(0, manifestAt), bundle.subarray(manifestAt)]
const inserted = Buffer.concat([head, packed('x'), tail])
refused('inserted-member', 'A gzip member stands before the manifest', inserted, { entry: 'manifest.json' })
refused('cut-first-byte', 'The first byte is missing', bundle.subarray(1), { entry: 'events/000001.ndjson' })
const swapped = Buffer.concat([...members.slice(0, 8), members[9]!, members[8]!, tail])
refused('files-swapped', 'The members of `keys` and `events` are swapped', swapped, inBlock('keys'))

type Place = 'manifestAt' | 'signatureAt'
/** Bundles that the key of the deployment signed, so that only the fault itself can be refused. */
function signed(entry: string, cases: [name: string, is: string, change: Forgery, place?: Place][]): void {
  for (const [name, is, change, place] of cases) {
    const bytes = forged(parts, key, change)
    refused(name, is, bytes, { entry, ...(place && { offset: partsOf(bytes)[place] }) })
  }
}

type Row = Record<string, unknown>
const text = (rows: Row[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join('')
const rows: Row[] = contentsOf('audit')
  .toString('utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line))
const withRows = (changed: Row[]): Forgery => ({ files: { audit: text(changed) } })
const withRow = (index: number, fields: Row): Forgery => withRows(rows.with(index, { ...rows[index], ...fields }))
const { reason: _, ...withoutReason } = rows[3]!
signed('audit/000001.ndjson', [
  ['entry-changed', 'The reason of audit entry 5 is another one', withRow(2, { reason: 'harmless' })],
  ['entry-removed', 'Audit entry 4, a withheld one, is missing', withRows(rows.toSpliced(1, 1))],
  ['entry-added', 'An entry with seq 2 follows entry 3', withRows(rows.toSpliced(1, 0, { ...rows[0], seq: 2 }))],
  ['link-broken', 'The `prev_hash` of withheld entry 4 is another one', withRow(1, { prev_hash: '0'.repeat(64) })],
  ['end-changed', 'The last entry has another hash than `audit.last`', withRow(4, { hash: '0'.repeat(64) })],
  ['end-missing', 'The last entry is missing', withRows(rows.slice(0, -1))],
  ['withheld-with-text', 'A withheld entry has a `reason`, which no hash covers', withRow(0, { reason: 'x' })],
  ['withheld-false', 'An entry has `"withheld":false`', withRow(2, { withheld: false })],
  ['entry-without-field', 'Audit entry 6 has no `reason`', withRows(rows.with(3, withoutReason))],
  ['entry-not-json', 'A row of the audit log is not JSON', { files: { audit: 'x\n' } }],
])

const events = entryOf('events')
const member = members[placeOf('events')]!
const [atMs, eventText] = [Date.parse(signature.signed_at), contentsOf('events')]
signed(events.name, [
  [
    'bytes-after-member',
    'Ten zero bytes and its own CRC-32 and size follow the gzip member of `events`, within its blocks',
    { members: { events: Buffer.concat([member, Buffer.alloc(10), member.subarray(-8)]) } },
  ],
  [
    'second-member',
    'The blocks of `events` cover two gzip members',
    { members: { events: Buffer.concat([member, packed('')]) } },
  ],
  [
    'other-name-in-tar',
    'The tar header of `events` has another name',
    { members: { events: packed(tarFile('../events', eventText, atMs)) } },
  ],
  [
    'other-time-in-tar',
    'The tar header of `events` has another time',
    { members: { events: packed(tarFile(events.name, eventText, 0)) } },
  ],
  ['other-size', 'The manifest has a smaller size for `events`', { manifest: ({ entries }) => entries.at(-1)!.size-- }],
  [
    'other-hash',
    'The manifest has another SHA-256 for `events`',
    { manifest: ({ entries }) => Object.assign(entries.at(-1)!, { sha256: '0'.repeat(64) }) },
  ],
  ['other-rows', 'The manifest has one row more for `events`', { manifest: ({ entries }) => entries.at(-1)!.rows++ }],
  ['no-last-line-feed', 'The last row of `events` has no line feed', { files: { events: eventText.subarray(0, -1) } }],
  ['not-utf-8', '`events` is not UTF-8', { files: { events: Buffer.from([0xff, 10]) } }],
])
signed('agent/000001.ndjson', [
  [
    'size-above-limit',
    'The manifest has a size of 8 MiB and one byte for `agent`',
    { manifest: ({ entries }) => Object.assign(entries[0]!, { size: 2 ** 23 + 1 }) },
  ],
])
signed('heartbeats/000001.ndjson', [
  [
    'other-offset',
    'The manifest has another offset for `heartbeats`',
    { manifest: ({ entries }) => entries[1]!.packed.offset++ },
  ],
])
signed('manifest.json', [
  ['other-order', 'The manifest lists the files backwards', { manifest: ({ entries }) => entries.reverse() }],
  [
    'other-file',
    'The manifest has a file that format 1 does not have',
    { manifest: ({ entries }) => Object.assign(entries[0]!, { name: 'notes/000001.ndjson' }) },
  ],
  [
    'other-block-size',
    '`block_bytes` is 131,072',
    { manifest: (copy) => Object.assign(copy, { block_bytes: 131_072 }) },
    'manifestAt',
  ],
  [
    'genesis-changed',
    '`audit.after` has seq 0 and a hash other than 64 zeros',
    { manifest: ({ audit }) => Object.assign(audit.after, { seq: 0 }) },
    'manifestAt',
  ],
  [
    'times-differ',
    '`exported_at` is another time than `signed_at`',
    { manifest: (copy) => Object.assign(copy, { exported_at: copy.to }) },
    'manifestAt',
  ],
  [
    'other-signature',
    'The signature is that of another manifest',
    {
      manifest: (copy) => Object.assign(copy, { instance_id: 'billing-1' }),
      signature: { signature: signature.signature },
    },
    'manifestAt',
  ],
])

/** Seed of the second key, as public as the first one. */
const seed = Buffer.alloc(32, 7)

const { privateKey, x: publicKey, kid } = keyPairOf(seed)
const other: SigningKey = { privateKey, publicKey, kid }
signed('signature.json', [
  [
    'field-in-signature',
    '`signature.json` has another field, which no signature covers',
    { signature: { note: 'x' } },
    'signatureAt',
  ],
  ['format-2', '`signature.json` has format 2', { signature: { format: 2 } }, 'signatureAt'],
  ['other-kid', '`kid` is that of another key', { signature: { kid } }],
])

// The hash covers canonical JSON: numbers, escapes and orders that languages write differently.
const awkward = {
  '€': 1e21,
  '\r': 1e-7,
  '\ufb33': 0.1,
  '1': 5e-324,
  '\ud83d\ude00': 1.7976931348623157e308,
  '\u0080': 123456789012345680000,
  ö: 'a\u2028\u007f\u0000\u001f\b\f\n\r\t"\\/',
  n: [9007199254740991, 1.5e300, -1e-6, 333333333.3333333, 100, 4.5, 2e-3, 1e23],
}
let previous = manifest.audit.after.hash
const chained = rows.map((row, index) => {
  const scope = index === 3 ? null : row.scope
  const entry = 'withheld' in row ? row : { ...row, scope, ...(index === 2 ? { after: awkward } : {}) }
  const covered = { ...entry, at: Date.parse(String(row.at)), scope: scope ?? '' } as unknown as ChainRow
  const hash = 'withheld' in row ? String(row.hash) : sha256(Buffer.from(chainText(covered, previous)))
  const linked = { ...entry, prev_hash: previous, hash }
  previous = hash
  return linked
})
const otherForms = text(chained).replace('"ö"', '"\\u00f6"').replace(',100,', ',1E+2,').replace(',4.5,', ',4.50,')
const canonical: Forgery = {
  files: { audit: otherForms },
  manifest: ({ audit }) => Object.assign(audit.last, { hash: previous }),
}
write(
  'valid-canonical-json',
  'Values that have several forms in JSON; an entry whose `scope` is null',
  forged(parts, key, canonical),
  { ok: true },
)

const byOther = forged(parts, other, {})
refused('other-key', 'Signed by a key that is not in the list', byOther, { entry: 'signature.json' })
again('other-key', 'The same, without a list of keys', { ok: true }, null)
again('other-key', 'The same, with a list that has the key', { ok: true }, 'keys-other.json')
again(
  'valid',
  'The key was not valid any more at `signed_at`',
  { ok: false, entry: 'signature.json' },
  'keys-ended.json',
)

const { evidence_keys, ...rest } = JSON.parse(keys)
for (const [name, changes] of Object.entries({
  keys: {},
  'keys-ended': { valid_until: '2026-03-02T10:59:59.999Z' },
  'keys-other': { kid, public_key: publicKey },
})) {
  const list = { ...rest, evidence_keys: [{ ...evidence_keys[0], ...changes }] }
  writeFileSync(join(folder, `${name}.json`), `${JSON.stringify(list)}\n`)
}
writeFileSync(join(folder, 'vectors.json'), `[\n${vectors.map((vector) => JSON.stringify(vector)).join(',\n')}\n]\n`)
