import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import { crc32 } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { effort } from '../../../../../test-servers/effort.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { workLane } from '../../work-turns.ts'
import { generateKey, parseKeyId } from './key-format.ts'

// If response time or form revealed which part of a guess was right, an attacker could find a key byte by byte. The
// tests count the work, because times vary more with the public checksum of a text than with the comparison.

let service: TestService
/** Guesses that differ in which part of a key is right. */
let guesses: Record<string, string>

/** Appends the checksum, so that the text is a well-formed key. */
function withChecksum(body: string): string {
  const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
  let digits = ''
  for (let rest = crc32(body); digits.length < 6; rest = Math.floor(rest / 62)) digits = base62[rest % 62] + digits
  const key = `${body}_${digits}`
  expect(parseKeyId(key)).toBe(body.split('_')[2])
  return key
}

/** Returns a key with the given id and another secret. */
const forge = (id: string): string =>
  withChecksum(
    generateKey('viewer')
      .key.slice(0, -7)
      .replace(/^(wl_viewer_)[^_]+/, `$1${id}`),
  )

const otherThan = (character: string) => (character === 'x' ? 'y' : 'x')
const changed = (text: string, at: number) => text.slice(0, at) + otherThan(text[at]!) + text.slice(at + 1)

beforeAll(async () => {
  service = await openTestService({ env: { WARDLINE_TRUSTED_PROXIES: '127.0.0.1' } })
  const { id, key } = await service.createKey('viewer')
  const revoked = await service.createKey('viewer')
  await service.call('DELETE', `/api/keys/${revoked.id}`)
  const secretAt = key.indexOf(id) + id.length + 1
  guesses = {
    'first byte wrong': changed(key, 0),
    'first byte of the secret wrong': withChecksum(changed(key.slice(0, -7), secretAt)),
    'last byte of the secret wrong': withChecksum(changed(key.slice(0, -7), key.length - 8)),
    'last byte wrong': changed(key, key.length - 1),
    'known id, another secret': forge(id),
    'revoked id, another secret': forge(revoked.id),
    'unknown id': generateKey('viewer').key,
  }
})
afterAll(() => service[Symbol.asyncDispose]())

/** Records the calls of the cryptographic functions with the lengths of their arguments. */
async function workOf(action: () => unknown): Promise<string[]> {
  const done: string[] = []
  const names = ['hash', 'createHmac', 'timingSafeEqual'] as const
  const originals = names.map((name) => crypto[name])
  for (const [index, name] of names.entries()) {
    Object.assign(crypto, {
      [name]: (...given: unknown[]) => {
        const bytes = given.map((value) => (value as { length?: number })?.length ?? 0)
        done.push(`${name} ${bytes}`)
        return (originals[index] as (...values: unknown[]) => unknown)(...given)
      },
    })
  }
  syncBuiltinESMExports()
  try {
    await action()
  } finally {
    for (const [index, name] of names.entries()) Object.assign(crypto, { [name]: originals[index] })
    syncBuiltinESMExports()
  }
  return done
}

describe('a guessed key', () => {
  it('costs the same work whichever part of it is right', async () => {
    const { keyring } = service.services
    const works: Record<string, string[]> = {}
    for (const [name, guess] of Object.entries(guesses)) {
      works[name] = await workOf(() => expect(keyring.find(guess)).toBeUndefined())
    }
    const [first, ...others] = Object.values(works)
    // Hashes the guess, then compares it with the configured key and with the key of the id.
    expect(first!.map((call) => call.split(' ')[0])).toEqual(['hash', 'timingSafeEqual', 'timingSafeEqual'])
    for (const other of others) expect(other, JSON.stringify(works)).toEqual(first)
  })

  it('gets the same response, byte for byte, whichever part of it is right', async () => {
    const answers = new Set<string>()
    let address = 0
    for (const guess of Object.values(guesses)) {
      const headers = { 'x-forwarded-for': `192.0.2.${++address}` }
      const answer = await service.call('GET', '/api/status', { key: guess, headers })
      const { date: _date, ...shown } = answer.headers
      answers.add(JSON.stringify([answer.status, shown, answer.text]))
    }
    expect([...answers]).toHaveLength(1)
    expect([...answers][0]).toContain('[401,')
  })
})

/** Welch's t: the difference between the means of two samples in standard errors. */
function welch(one: readonly number[], other: readonly number[]): number {
  const momentsOf = (values: readonly number[]) => {
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length
    const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0)
    return { mean, error: squares / (values.length - 1) / values.length }
  }
  const [a, b] = [momentsOf(one), momentsOf(other)]
  return (a.mean - b.mean) / Math.sqrt(a.error + b.error)
}

/** Every order of the three kinds, so that effects of the CPU caches are distributed equally. */
const orders = [
  [0, 1, 2],
  [2, 1, 0],
  [1, 2, 0],
  [0, 2, 1],
  [2, 0, 1],
  [1, 0, 2],
]

// Runs only at night because it measures time. Three things change the time of equal work by more than the effect
// under test. A wrong checksum ends the work early, so all checksums are right. The text matters, so there are many
// texts. Its place in memory matters, so each guess is a new string, like one from a socket.
if (effort(false, true)) {
  it('a guess takes the same time to refuse whichever end of the secret is wrong: |t| < 4.5', async () => {
    const { keyring } = service.services
    const bases = await Promise.all(Array.from({ length: 50 }, () => service.createKey('viewer')))
    const secretAt = (key: string) => key.length - 7 - 43
    const kinds = {
      'unknown key': bases.map(() => generateKey('viewer').key),
      'first character wrong': bases.map(({ key }) => withChecksum(changed(key.slice(0, -7), secretAt(key)))),
      'last character wrong': bases.map(({ key }) => withChecksum(changed(key.slice(0, -7), key.length - 8))),
    }
    const bytes = Object.values(kinds).map((keys) => keys.map((key) => Buffer.from(key, 'latin1')))
    const nanoseconds: number[][] = bytes.map(() => [])
    const rounds = 60_000
    const warmUp = 5_000
    for (let round = 0; round < warmUp + rounds; round++) {
      for (const kind of orders[round % orders.length]!) {
        const guess = bytes[kind]![round % bases.length]!.toString('latin1')
        const before = process.hrtime.bigint()
        keyring.find(guess)
        const taken = Number(process.hrtime.bigint() - before)
        if (round >= warmUp) nanoseconds[kind]!.push(taken)
      }
    }
    // The slowest 1% was interrupted by garbage collection or by another process.
    const all = nanoseconds.flat().sort((one, other) => one - other)
    const longest = all[Math.floor(all.length * 0.99)]!
    const [unknown, first, last] = nanoseconds.map((taken) => taken.filter((value) => value <= longest))
    const means = [unknown!, first!, last!].map((taken) => taken.reduce((sum, value) => sum + value, 0) / taken.length)
    const [ofId, ofSecret] = [welch(unknown!, first!), welch(first!, last!)]
    const shown = Object.keys(kinds).map((kind, index) => `${kind} ${means[index]!.toFixed(0)} ns`)
    console.log(`${shown.join(', ')}; t of the id ${ofId.toFixed(2)}, of the secret ${ofSecret.toFixed(2)}`)
    expect(Math.min(first!.length, last!.length)).toBeGreaterThan(20_000)
    expect(Math.abs(ofSecret)).toBeLessThan(4.5)
  })
}

describe('a decoy key', () => {
  // The look-up uses HMACs: without the secret an attacker cannot exploit the order of an index.
  it('costs the same work to look up as a key that is not a decoy', async () => {
    const { body } = await service.call<{ id: string; key: string }>('POST', '/api/honeypots', {
      body: { instanceId: 'agent-1', type: 'api_key', keyType: 'openai' },
    })
    const { key: agentKey } = await service.createKey('agent')
    const { decoyChecks, keyring } = service.services
    const piece = workLane.open('agent-1', { max: 8 })
    const check = { meta: undefined, principal: keyring.find(agentKey)!, address: '192.0.2.7', piece }
    // The HMACs are computed with the one-shot hash; its first block depends on the key alone.
    const hashes = (work: string[]) => work.filter((call) => call.startsWith('hash'))
    // The first look-up is not counted: on PostgreSQL each new statement is named by a hash.
    await decoyChecks.checkKey(body.key, check)
    const hit = await workOf(async () => expect((await decoyChecks.checkKey(body.key, check)).matched).toBe(true))
    // The same text after the decoy is deleted: the number of candidates in a text is public.
    await service.call('DELETE', `/api/honeypots/${body.id}`)
    const miss = await workOf(async () => expect((await decoyChecks.checkKey(body.key, check)).matched).toBe(false))
    expect(hashes(hit).length).toBeGreaterThan(0)
    expect(hashes(miss)).toEqual(hashes(hit))
  })

  it('gets a response that differs only in the result', async () => {
    const { body } = await service.call<{ key: string }>('POST', '/api/honeypots', {
      body: { instanceId: 'agent-1', type: 'api_key', keyType: 'openai' },
    })
    const ask = async (key: string) => {
      const { status, headers, text } = await service.call('POST', '/api/honeypots/check/key', { body: { key } })
      const { date: _date, 'content-length': length, ...shown } = headers
      return { shown: [status, shown], text, length: Number(length) }
    }
    const [hit, miss] = [await ask(body.key), await ask(changed(body.key, body.key.length >> 1))]
    expect(hit.shown).toEqual(miss.shown)
    expect([hit.text, miss.text]).toEqual(['{"matched":true}', '{"matched":false}'])
    expect(miss.length - hit.length).toBe(1)
  })
})
