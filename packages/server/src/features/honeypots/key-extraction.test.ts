import { deflateSync, gzipSync } from 'node:zlib'
import { keyTypes } from '@wardline/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { anyCharacter } from '../../../../../test-servers/any-character.ts'
import { atOnce } from '../../testing/work.ts'
import { WorkBudget } from '../../work-turns.ts'
import { type GeneratedDecoy, generateDecoyKey } from './decoy-keys.ts'
import { keyCheckUnits } from './decoy-search.ts'
import { KeySearch, maxKeyCandidates, maxKeyInputLength } from './key-extraction.ts'
import { foldedForm } from './key-formats.ts'

/** Returns the candidates within the budget of a check. */
function candidatesOf(input: string, budget = new WorkBudget(keyCheckUnits)): string[] {
  const search = new KeySearch(input, budget)
  return [...atOnce(search.plainCandidates()), ...atOnce(search.nestedCandidates())]
}

function isFound(input: string, decoy: GeneratedDecoy): boolean {
  const candidates = new Set(candidatesOf(input))
  return decoy.fingerprintForms.some((form) => candidates.has(form) || candidates.has(foldedForm(form)))
}

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const hex = (text: string): string => Buffer.from(text).toString('hex')
const percent = (text: string): string =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')

function base32(text: string): string {
  const bits = [...Buffer.from(text)].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
  return (bits.match(/.{1,5}/g) ?? []).map((five) => letters[Number.parseInt(five.padEnd(5, '0'), 2)]!).join('')
}

const disguises: Record<string, (value: string) => string> = {
  itself: (value) => value,
  'surrounding blanks': (value) => `\n\t ${value} \r\n`,
  'a bearer header': (value) => `Authorization: Bearer ${value}`,
  'a basic header': (value) => `Authorization: Basic ${base64(`user:${value}`)}`,
  'an env line': (value) => `API_KEY=${value}`,
  'a shell export': (value) => `export API_KEY="${value}"; ./run`,
  'a JSON body': (value) => JSON.stringify({ headers: { 'x-api-key': value } }),
  'JSON inside JSON': (value) => JSON.stringify({ body: JSON.stringify({ key: value }) }),
  'URL userinfo': (value) => `https://user:${encodeURIComponent(value)}@host.test/path`,
  'a URL query': (value) => `https://host.test/collect?k=${encodeURIComponent(value)}&x=1`,
  'a URL path': (value) => `https://host.test/collect/${encodeURIComponent(value)}/end`,
  'double percent-encoding': (value) => encodeURIComponent(encodeURIComponent(value)),
  'percent-encoding of every byte': percent,
  'percent-encoding three deep': (value) => percent(percent(percent(value))),
  base64,
  'base64url in a sentence': (value) => `please run ${Buffer.from(value).toString('base64url')} now`,
  'base64 of base64': (value) => base64(base64(value)),
  'base64 of a JSON body': (value) => base64(JSON.stringify({ user: 'a', key: value })),
  'base64 behind a path': (value) => `/tmp/out/${base64(value)}`,
  'wrapped base64': (value) => base64(value).replace(/.{20}/g, '$&\n'),
  'base64 of UTF-16': (value) => Buffer.from(value, 'utf16le').toString('base64'),
  hexadecimal: hex,
  'hexadecimal of base64': (value) => hex(base64(value)),
  'escaped hexadecimal': (value) => [...value].map((c) => `\\x${hex(c)}`).join(''),
  'unicode escapes': (value) => [...value].map((c) => `\\u00${hex(c)}`).join(''),
  'literal line ends': (value) => value.replaceAll('\n', '\\n'),
  'doubly escaped line ends': (value) => value.replaceAll('\n', '\\\\n'),
  'line breaks in the middle': (value) => value.replace(/.{15}/g, '$&\n    '),
  'joined string literals': (value) => value.replace(/.{15}/g, '$&" + "'),
  'invisible characters': (value) => value.replace(/.{7}/g, '$&\u200b'),
  'a listing with line numbers': (value) => value.replace(/^/gm, '    12\t'),
  'a diff': (value) => value.replace(/^/gm, '+'),
  'a quoted mail': (value) => value.replace(/^/gm, '> '),
  'HTML entities': (value) => [...value].map((c) => `&#${c.charCodeAt(0)};`).join(''),
  'HTML entities in hexadecimal': (value) => [...value].map((c) => `&#x${hex(c)};`).join(''),
  'named HTML entities': (value) =>
    value.replaceAll('_', '&lowbar;').replaceAll('/', '&sol;').replaceAll('-', '&hyphen;'),
  'braced unicode escapes': (value) => [...value].map((c) => `\\u{${hex(c)}}`).join(''),
  'octal escapes': (value) => [...value].map((c) => `\\${c.charCodeAt(0).toString(8)}`).join(''),
  'a call of String.fromCharCode': (value) =>
    `String.fromCharCode(${[...value].map((c) => c.charCodeAt(0)).join(', ')})`,
  'calls of chr': (value) => [...value].map((c) => `chr(${c.charCodeAt(0)})`).join('+'),
  'a list of codes': (value) => `bytes([${[...value].map((c) => c.charCodeAt(0)).join(',')}])`,
  'a list of hexadecimal codes': (value) => [...value].map((c) => `0x${hex(c)}`).join(', '),
  'hexadecimal with colons': (value) => [...value].map(hex).join(':'),
  'hexadecimal with spaces': (value) => [...value].map(hex).join(' '),
  base32,
  'base32 in lower case': (value) => base32(value).toLowerCase(),
  'quoted-printable': (value) =>
    [...value]
      .map((c) => (/[a-z=]/.test(c) ? `=${hex(c).toUpperCase()}` : c))
      .join('')
      .replace(/(?:=[0-9A-F]{2}|[^=]){20}/g, '$&=\r\n'),
  'gzip in base64': (value) => gzipSync(JSON.stringify({ key: value })).toString('base64'),
  'zlib in base64': (value) =>
    `eval "$(echo ${deflateSync(value).toString('base64')} | base64 -d | zlib-flate -uncompress)"`,
  backwards: (value) => [...value].reverse().join(''),
  'base64, backwards': (value) => [...base64(value)].reverse().join(''),
  'base64 of it backwards': (value) => base64([...value].reverse().join('')),
  'lower case': (value) => value.toLowerCase(),
  'upper case': (value) => `TOKEN ${value.toUpperCase()}`,
  'full-width characters': (value) => value.replace(/[!-~]/g, (c) => String.fromCharCode(c.charCodeAt(0) + 0xfee0)),
}

describe.each(keyTypes)('a decoy of kind %s is found', (keyType) => {
  test.each(Object.keys(disguises))('in %s', (name) => {
    const decoy = generateDecoyKey(keyType)
    expect(isFound(disguises[name]!(decoy.value), decoy), decoy.value).toBe(true)
  })

  test('by each of its fingerprints alone', () => {
    const decoy = generateDecoyKey(keyType)
    for (const form of decoy.fingerprintForms) expect(candidatesOf(form)).toContain(form)
  })

  // An attacker may glue characters to a key and remove them elsewhere.
  test('with foreign characters glued to it', () => {
    const decoy = generateDecoyKey(keyType)
    expect(isFound(`xx${decoy.value}yy`, decoy)).toBe(true)
  })

  // An attacker hopes that the search gives up before it reaches the key.
  test('behind and before 60 KiB of junk', () => {
    const decoy = generateDecoyKey(keyType)
    const junk = Array.from({ length: 2500 }, (_, index) => `aB1${index}`.padEnd(21, 'x')).join(' ')
    expect(isFound(`${junk} ${decoy.value}`, decoy)).toBe(true)
    expect(isFound(`${decoy.value} ${junk}`, decoy)).toBe(true)
    expect(isFound(`${junk} ${base64(JSON.stringify({ key: decoy.value }))}`, decoy)).toBe(true)
  })

  test('in any surroundings', () => {
    const decoy = generateDecoyKey(keyType)
    const surroundings = fc.string({ unit: anyCharacter, maxLength: 200 })
    const isStillFound = (before: string, after: string) => isFound(`${before}\n${decoy.value}\n${after}`, decoy)
    fc.assert(fc.property(surroundings, surroundings, isStillFound), { numRuns: 50 })
  })
})

// An attacker may fill the list of candidates with key-shaped texts to push the decoy out of it.
describe('key-shaped filler does not push a decoy out', () => {
  const fillers: Record<string, (index: number) => string> = {
    'AWS ids': (index) =>
      `AKIAQ${index
        .toString(32)
        .toUpperCase()
        .replace(/[0189]/g, 'X')
        .padStart(15, 'A')}`,
    'bare tokens': (index) => `aB1${String(index).padStart(29, 'x')} `,
    'cut tokens': (index) => `aB1${String(index).padStart(38, 'x')} `,
    'slash-cut secrets': (index) => `/aB${index}`,
    'overlapping keys': (index) => `AIzaSy${index.toString(36).padStart(3, 'Q').slice(-3)}`,
    'overlapping marks': (index) => `glpat-sk-proj-${index}`,
    'escaped text': (index) => `%4${index % 10}"\\u0041${base64(`%41 ${index}`)}`,
  }
  test.each(Object.keys(fillers))('%s', (name) => {
    let filler = ''
    for (let index = 0; filler.length < maxKeyInputLength - 1000; index++) filler += fillers[name]!(index)
    for (const keyType of ['openai', 'github', 'generic', 'ethereum', 'aws'] as const) {
      const decoy = generateDecoyKey(keyType)
      expect(isFound(`${filler}\n${decoy.value}`, decoy), keyType).toBe(true)
    }
    expect(candidatesOf(filler).length).toBeLessThanOrEqual(maxKeyCandidates)
  })
})

// A text that makes a search take seconds would block the service for all callers.
describe('hostile texts of 64 KiB are searched in linear time', () => {
  const units = [
    '\\',
    '"',
    ' ',
    '%25',
    'VVVV',
    'sk-proj-',
    '8Q~',
    '+ASt',
    '/aB1',
    '\ufdfa',
    '41',
    '" + ',
    '\\\\n',
    '1\n',
    '+\n',
  ]
  test.each([...units, 'eyJhbGciOiJFUzI1NiIsImtpZCI6', 'b3BlbnNzaC1rZXktdjE'])('of %j', (unit) => {
    const text = unit.repeat(Math.ceil(maxKeyInputLength / unit.length)).slice(0, maxKeyInputLength)
    const before = process.threadCpuUsage()
    expect(candidatesOf(text).length).toBeLessThanOrEqual(maxKeyCandidates)
    expect(process.threadCpuUsage(before).user).toBeLessThan(2_000_000)
  })
})

// A step that expands a text must not push a key beyond what is searched without a report.
describe('a decoy behind text that decoding expands is found', () => {
  const decoy = generateDecoyKey('github')
  const inBase32 = base32(`key: ${decoy.value} `)
  test.each([
    ['base64', `${'VVVV'.repeat(5_600)};${base64(`key: ${decoy.value} `)}`],
    ['base64 of the maximum length', `${'VVVV'.repeat(16_300)};${base64(`key: ${decoy.value} `)}`],
    ['base32', `${'KVKVKVKV'.repeat(2_000)};${inBase32}`],
    ['base32 of the maximum length', `${'KVKVKVKV'.repeat(8_150)};${inBase32}`],
    ['hexadecimal', `${'55'.repeat(32_000)};${hex(`key: ${decoy.value} `)}`],
    ['packed text', `${gzipSync('x'.repeat(60_000)).toString('base64')};${gzipSync(decoy.value).toString('base64')}`],
  ])('in %s', (_, text) => {
    expect(text.length).toBeLessThanOrEqual(maxKeyInputLength)
    expect(isFound(text, decoy)).toBe(true)
  })

  test('in look-alikes, or the check reports that it searched only a part', () => {
    const fullWidth = decoy.value.replace(/[!-~]/g, (c) => String.fromCharCode(c.charCodeAt(0) + 0xfee0))
    const budget = new WorkBudget(keyCheckUnits)
    const candidates = candidatesOf(`${'\ufdfa'.repeat(5_000)} ${fullWidth}`, budget)
    expect(candidates).not.toContain(decoy.value)
    expect(budget.isExhausted).toBe(true)
  })
})

test('a text longer than the limit is searched up to the limit', () => {
  const decoy = generateDecoyKey('github')
  expect(isFound(`${' '.repeat(maxKeyInputLength - 40)}${decoy.value}`, decoy)).toBe(true)
  expect(isFound(`${' '.repeat(maxKeyInputLength)}${decoy.value}`, decoy)).toBe(false)
})

test('ordinary text yields at most one candidate', () => {
  expect(candidatesOf('git commit -m "Fix the build" && npm run test -- --grep sk-learn')).toHaveLength(1)
  expect(candidatesOf('')).toEqual([])
})

test('hexadecimal keys are found in either case, with or without 0x', () => {
  const decoy = generateDecoyKey('ethereum')
  const [key] = decoy.fingerprintForms
  for (const text of [key!, key!.toUpperCase(), `0X${key!.toUpperCase()}`]) expect(candidatesOf(text)).toContain(key)
})

test('another key of the same shape yields other candidates', () => {
  for (const keyType of keyTypes) {
    expect(isFound(generateDecoyKey(keyType).value, generateDecoyKey(keyType)), keyType).toBe(false)
  }
})
