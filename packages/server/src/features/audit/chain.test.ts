import { createHash } from 'node:crypto'
import {
  type ChainEntry,
  type ChainRow,
  type Checkpoint,
  canonicalJson,
  chainText,
  genesisHash,
  type Json,
  verifyChain,
} from '@wardline/contract'
import canonicalize from 'canonicalize'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { effort } from '../../../../../test-servers/effort.ts'
import { formatCheckpoint, parseCheckpoint, sha256Hex } from './chain.ts'

const auditHash = (entry: ChainEntry, previousHash: string) => sha256Hex(chainText(entry, previousHash))

const text = fc.string({ unit: 'grapheme', maxLength: 12 })
const maybeText = fc.option(text)
const json = fc.jsonValue({ depthSize: 'small', maxDepth: 2 }) as fc.Arbitrary<Json>
const entry: fc.Arbitrary<Omit<ChainEntry, 'seq'>> = fc.record({
  at: fc.integer({ min: 0, max: 4_000_000_000_000 }),
  actor: text,
  scope: fc.constantFrom('operator', 'admin', 'system'),
  ip: fc.option(fc.ipV4()),
  action: fc.constantFrom('instance.suspend', 'instance.resume', 'key.create'),
  target: maybeText,
  before: json,
  after: json,
  reason: maybeText,
  request_id: maybeText,
})

function chainOf(entries: readonly Omit<ChainEntry, 'seq'>[], from = 1, previousHash = genesisHash): ChainRow[] {
  let previous = previousHash
  return entries.map((fields, index) => {
    const numbered = { ...fields, seq: from + index }
    const row = { ...numbered, prev_hash: previous, hash: auditHash(numbered, previous) }
    previous = row.hash
    return row
  })
}

async function* stream(rows: readonly ChainRow[]): AsyncGenerator<ChainRow> {
  yield* rows
}

const verify = (rows: readonly ChainRow[], checkpoint?: Checkpoint) => verifyChain(stream(rows), sha256Hex, checkpoint)
const checkpointAt = (row: ChainRow): Checkpoint => ({ seq: row.seq, hash: row.hash, at: row.at })
const rehashed = (row: ChainRow): ChainRow => ({ ...row, hash: auditHash(row, row.prev_hash) })

const length = 300
const log = chainOf(fc.sample(entry, { numRuns: length, seed: 47 }))
const head = log[length - 1]!
const headCheckpoint = checkpointAt(head)

type Forgery = { name: string; rows: ChainRow[]; checkpoint?: Checkpoint }
const place = fc.nat(length - 1)

/** Sets any field of any row to another value of any type; the attacker may recompute the hash of that row. */
const edit: fc.Arbitrary<Forgery> = fc
  .tuple(place, fc.constantFrom(...(Object.keys(head) as (keyof ChainRow)[])), fc.oneof(json, text), fc.boolean())
  .filter(([index, field, value]) => JSON.stringify(log[index]![field]) !== JSON.stringify(value))
  .filter(([index, field, value]) => !sameJson(log[index]![field], value))
  .map(([index, field, value, covered]) => {
    const row = { ...log[index]!, [field]: value } as ChainRow
    const rows = log.with(index, covered && field !== 'hash' ? rehashed(row) : row)
    return { name: `edit of ${field}`, rows, checkpoint: headCheckpoint }
  })

/** The same without a checkpoint. The chain alone reveals it, except for a complete rewrite of the last row. */
const editAlone: fc.Arbitrary<Forgery> = edit
  .filter(({ rows }) => rows[length - 1] === head)
  .map(({ name, rows }) => ({ name: `${name}, no checkpoint`, rows }))

const drop: fc.Arbitrary<Forgery> = fc
  .tuple(fc.nat(length - 2), fc.integer({ min: 1, max: 5 }), fc.boolean())
  .map(([index, count, renumber]) => {
    const kept = log.toSpliced(index, Math.min(count, length - 1 - index))
    const rows = renumber ? kept.map((row, at) => ({ ...row, seq: at + 1 })) : kept
    return { name: 'drop', rows }
  })

const insert: fc.Arbitrary<Forgery> = fc.tuple(place, entry, fc.boolean()).map(([index, fields, renumber]) => {
  const forged = chainOf([fields], index + 1, log[index]!.prev_hash)
  const grown = log.toSpliced(index, 0, ...forged)
  const rows = renumber ? grown.map((row, at) => ({ ...row, seq: at + 1 })) : grown
  return { name: 'insert', rows }
})

const swap: fc.Arbitrary<Forgery> = fc
  .tuple(place, place, fc.boolean())
  .filter(([a, b]) => a !== b)
  .map(([a, b, keepNumbers]) => {
    const [first, second] = [log[a]!, log[b]!]
    const swapped = log.with(a, second).with(b, first)
    const rows = keepNumbers ? swapped.map((row, at) => ({ ...row, seq: at + 1 })) : swapped
    return { name: 'swap', rows }
  })

const cutTail: fc.Arbitrary<Forgery> = fc
  .nat(length - 1)
  .map((kept) => ({ name: 'tail cut', rows: log.slice(0, kept), checkpoint: headCheckpoint }))

/**
 * Changes one entry and recomputes all hashes from there on. The checkpoint is at this row or a later one.
 */
const rewrite: fc.Arbitrary<Forgery> = fc
  .tuple(place, place, fc.integer({ min: 1, max: 1_000_000 }))
  .map(([from, further, laterMs]) => {
    const changed = log.slice(from).map((row, at) => (at === 0 ? { ...row, at: row.at + laterMs } : row))
    const rows = [...log.slice(0, from), ...chainOf(changed, from + 1, log[from]!.prev_hash)]
    return { name: 'rewrite', rows, checkpoint: checkpointAt(log[Math.max(from, further)]!) }
  })

function sameJson(a: unknown, b: unknown): boolean {
  try {
    expect(a).toEqual(b)
    return true
  } catch {
    return false
  }
}

describe('canonicalJson', () => {
  // The reference is an independent implementation of RFC 8785.
  it('writes values like the reference implementation, and rejects the same values', () => {
    const any = fc.jsonValue({ stringUnit: 'binary' }) as fc.Arbitrary<Json>
    fc.assert(
      fc.property(any, (value) => {
        expect(canonicalJson(value)).toBe(canonicalize(value))
      }),
      { numRuns: 500 },
    )
    const numbers = [1e21, 1e-7, -0, 0.1 + 0.2, 2 ** 53, 5e-324]
    expect(canonicalJson(numbers)).toBe(canonicalize(numbers))
    for (const value of ['\ud800', { '\udc00': 1 }, [Number.NaN], Number.POSITIVE_INFINITY]) {
      expect(() => canonicalJson(value)).toThrow(TypeError)
      expect(() => canonicalize(value)).toThrow()
    }
  })
})

describe('the hash of a row', () => {
  const entry: ChainEntry = {
    seq: 1,
    at: 1_795_000_000_000,
    actor: 'k1',
    scope: 'operator',
    ip: '127.0.0.1',
    action: 'instance.suspend',
    target: 'böt-1',
    before: { suspended: false, control_version: 3 },
    after: { suspended: true, control_version: 4 },
    reason: 'runs "away"\n',
    request_id: null,
  }

  it('is the SHA-256 of a version line and the canonical JSON of the entry', () => {
    const written =
      'wardline-audit-v1\n{"action":"instance.suspend","actor":"k1","after":{"control_version":4,"suspended":true},' +
      '"at":1795000000000,"before":{"control_version":3,"suspended":false},"ip":"127.0.0.1",' +
      `"prev_hash":"${genesisHash}","reason":"runs \\"away\\"\\n","request_id":null,"scope":"operator","seq":1,` +
      '"target":"böt-1"}'
    expect(auditHash(entry, genesisHash)).toBe(createHash('sha256').update(written, 'utf8').digest('hex'))
  })

  it('does not depend on the order of keys or on other columns', () => {
    const turned = Object.fromEntries(Object.entries({ ...entry, id: 9 }).toReversed()) as unknown as ChainEntry
    turned.before = { control_version: 3, suspended: false }
    expect(auditHash(turned, genesisHash)).toBe(auditHash(entry, genesisHash))
  })
})

describe('verifyChain', () => {
  it('accepts 200 unchanged logs, with and without a checkpoint', async () => {
    const clean = fc.tuple(fc.array(entry, { maxLength: 40 }), fc.nat(1_000))
    await fc.assert(
      fc.asyncProperty(clean, async ([entries, pick]) => {
        // Like values from a database, which were JSON text.
        const rows = JSON.parse(JSON.stringify(chainOf(entries))) as ChainRow[]
        const headHash = rows.at(-1)?.hash ?? genesisHash
        const expected = { ok: true, count: rows.length, headSeq: rows.length, headHash }
        expect(await verify(rows)).toEqual(expected)
        const seen = rows[pick % Math.max(1, rows.length)]
        const checkpoint = seen ? checkpointAt(seen) : { seq: 0, hash: genesisHash, at: 0 }
        expect(await verify(rows, checkpoint)).toEqual(expected)
      }),
      { numRuns: 200 },
    )
  })

  it('verifies a long log from a stream', async () => {
    const rows = effort(20_000, 1_000_000)
    async function* long(): AsyncGenerator<ChainRow> {
      let previous = genesisHash
      for (let seq = 1; seq <= rows; seq++) {
        const [row] = chainOf([{ ...log[seq % length]! }], seq, previous)
        previous = row!.hash
        yield row!
      }
    }
    const startedAt = performance.now()
    expect(await verifyChain(long(), sha256Hex)).toMatchObject({ ok: true, count: rows })
    process.stdout.write(
      `${rows} audit entries made and verified in ${((performance.now() - startedAt) / 1000).toFixed(1)} s\n`,
    )
  })

  // An attacker with write access to the database wants to hide a suspension, a resume or a new key.
  it('detects 1,000 of 1,000 forgeries', { timeout: 60_000 }, async () => {
    expect(await verify(log, headCheckpoint)).toMatchObject({ ok: true, count: length })
    const forgery = fc.oneof(edit, editAlone, drop, insert, swap, cutTail, rewrite)
    await fc.assert(
      fc.asyncProperty(forgery, async ({ name, rows, checkpoint }) => {
        expect(await verify(rows, checkpoint), name).toMatchObject({ ok: false })
      }),
      { numRuns: 1_000, seed: 20_261_120 },
    )
  })

  it('reports the first row that is changed or missing', async () => {
    const edited = log.with(41, { ...log[41]!, reason: 'another' })
    expect(await verify(edited)).toEqual({
      ok: false,
      reason: 'tampered',
      seq: 42,
      detail: 'Entry 42 does not match its hash: it was changed.',
    })
    expect(await verify(log.with(41, rehashed({ ...log[41]!, reason: 'another' })))).toMatchObject({
      reason: 'tampered',
      seq: 43,
      detail: 'Entry 43 does not follow from entry 42: one of them was changed.',
    })
    expect(await verify(log.toSpliced(41, 1))).toMatchObject({
      reason: 'tampered',
      seq: 42,
      detail: 'Entry 42 is missing: entry 43 stands in its place.',
    })
  })

  it('detects that the first row is missing', async () => {
    expect(await verify(log.slice(1))).toMatchObject({ ok: false, reason: 'tampered', seq: 1 })
  })

  it('distinguishes a cut tail from tampering', async () => {
    expect(await verify(log.slice(0, 250), headCheckpoint)).toMatchObject({ ok: false, reason: 'cut', seq: 251 })
    expect(await verify([], headCheckpoint)).toMatchObject({ ok: false, reason: 'cut', seq: 1 })
  })

  it('detects a complete rewrite at the row of the checkpoint', async () => {
    const rebuilt = chainOf(log.map((row) => ({ ...row, actor: 'another key' })))
    expect(await verify(rebuilt)).toMatchObject({ ok: true })
    expect(await verify(rebuilt, checkpointAt(log[99]!))).toMatchObject({ ok: false, reason: 'tampered', seq: 100 })
  })

  it('accepts a log that is longer than at its checkpoint', async () => {
    expect(await verify(log, checkpointAt(log[99]!))).toMatchObject({ ok: true, count: length, headHash: head.hash })
  })

  // A row that breaks the hash computation must be reported with its number.
  it('reports a forged row whose hash computation fails', async () => {
    for (const reason of ['\ud800', Number.NaN]) {
      const rows = log.with(9, { ...log[9]!, reason } as ChainRow)
      expect(await verify(rows)).toMatchObject({ ok: false, reason: 'tampered', seq: 10 })
    }
  })
})

describe('checkpoint', () => {
  const line = `wardline-audit-checkpoint v1 seq=300 hash=${head.hash} at=2026-11-20T12:00:00.000Z`
  const checkpoint = { seq: 300, hash: head.hash, at: Date.UTC(2026, 10, 20, 12) }

  it('is one line of text', () => {
    expect(formatCheckpoint(checkpoint)).toBe(line)
    expect(parseCheckpoint(line)).toEqual(checkpoint)
    expect(parseCheckpoint(`${line}\r\n`)).toEqual(checkpoint)
  })

  it('is equal after formatting and parsing', () => {
    const any = fc.record({
      seq: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
      hash: fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 64, maxLength: 64 }),
      at: fc.integer({ min: 0, max: Date.UTC(9999, 11, 31) }),
    })
    fc.assert(
      fc.property(any, (value) => {
        expect(parseCheckpoint(formatCheckpoint(value))).toEqual(value)
      }),
    )
    const empty = { seq: 0, hash: genesisHash, at: 0 }
    expect(parseCheckpoint(formatCheckpoint(empty))).toEqual(empty)
  })

  // With a lenient parser, a wrong checkpoint could pass for the stored one.
  it.each([
    ['no text', '', /not an audit checkpoint/],
    ['another text', 'hello', /not an audit checkpoint/],
    ['two lines', `${line}\n${line}`, /not an audit checkpoint/],
    ['another version', line.replace('v1', 'v2'), /not an audit checkpoint/],
    ['a hash in capitals', line.replace(head.hash, head.hash.toUpperCase()), /not an audit checkpoint/],
    ['a hash too short', line.replace(head.hash, head.hash.slice(1)), /not an audit checkpoint/],
    ['a negative row', line.replace('seq=300', 'seq=-1'), /not an audit checkpoint/],
    ['a row with a leading zero', line.replace('seq=300', 'seq=0300'), /no valid row number/],
    ['a row beyond exact numbers', line.replace('seq=300', 'seq=9007199254740992'), /no valid row number/],
    ['an empty log with a hash', line.replace('seq=300', 'seq=0'), /empty log/],
    ['a day that is none', line.replace('2026-11-20', '2026-02-30'), /no valid time/],
    ['an hour that is none', line.replace('12:00', '25:00'), /no valid time/],
    ['a time without milliseconds', line.replace('.000Z', 'Z'), /no valid time/],
  ])('is rejected if it has %s', (_name, wrong, message) => {
    expect(() => parseCheckpoint(wrong)).toThrow(message)
  })
})
