import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isSecretName, withoutCredentials } from './credentials.ts'
import { redacted, redactedId, redactedText } from './redact.ts'

const seed = 1
const maxBytes = 4096
const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const random = (length: number, alphabet = letters) =>
  fc.array(fc.constantFrom(...alphabet), { minLength: length, maxLength: length }).map((parts) => parts.join(''))

/** Credentials in the formats of their issuers. */
const credential = fc.oneof(
  random(43).map((text) => `wl_agent_${text}`),
  random(48).map((text) => `sk-proj-${text}`),
  random(16, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567').map((text) => `AKIA${text}`),
  random(36).map((text) => `ghp_${text}`),
  random(24).map((text) => `xoxb-123456789012-1234567890123-${text}`),
  random(30).map((text) => `eyJhbGciOiJIUzI1NiJ9.eyJzdWIi${text}.${text}`),
  random(40).map((text) => `${text}A1b2`),
  random(64, '0123456789abcdef'),
  random(200).map((text) => `-----BEGIN RSA PRIVATE KEY-----\n${text}\n-----END RSA PRIVATE KEY-----`),
)
/** The part of a credential that must not remain in the result. */
const core = (text: string) =>
  text
    .replace(/-----[A-Z ]+-----\n?/g, '')
    .trim()
    .slice(-16)

test('removes a credential at any place in a text', () => {
  const around = fc.constantFrom('', ' ', '"', "'", '=', ': ', '\n', ';', ',', '(', '/', 'curl -H ', 'export A=')
  fc.assert(
    fc.property(credential, around, around, fc.lorem(), (secret, before, after, words) => {
      expect(redactedText(`${words} ${before}${secret}${after} ${words}`, 4000)).not.toContain(core(secret))
    }),
    { seed, numRuns: 1000 },
  )
})

test('removes a credential at any depth of a value', () => {
  const value = fc.object({ maxDepth: 3, withDate: true, withMap: true, withSet: true, withBigInt: true })
  fc.assert(
    fc.property(credential, value, fc.string(), (secret, filler, name) => {
      const shapes = [
        secret,
        { [name]: secret, filler },
        { filler, list: [filler, { [name]: `say ${secret} twice` }] },
        new Map([[name, { deep: secret }]]),
        new Set([secret]),
        { [secret]: true },
        new Error(secret),
        new URL(`https://host.example/?q=${encodeURIComponent(secret)}`),
      ]
      for (const shape of shapes) expect(JSON.stringify(redacted(shape, maxBytes))).not.toContain(core(secret))
    }),
    { seed, numRuns: 300 },
  )
})

// A cut through a credential would leave a first half that is not recognized.
test('leaves no part of a credential at the cut of a long text', () => {
  fc.assert(
    fc.property(
      random(40),
      fc.integer({ min: 470, max: 500 }),
      fc.integer({ min: 960, max: 1000 }),
      (token, near, far) => {
        const secret = `${token}A1b2`
        for (const place of [near, far]) {
          const text = redactedText(
            `${'word '.repeat(place / 5)}${'w'.repeat(place % 5)} ${secret} ${'end '.repeat(500)}`,
            500,
          )
          expect(text.length).toBeLessThanOrEqual(500)
          for (let start = 0; start < 33; start++) expect(text).not.toContain(secret.slice(start, start + 12))
        }
        // A text without a separator to cut at is left out.
        expect(redactedText('x'.repeat(5_000), 500)).toBe('…')
      },
    ),
    { seed, numRuns: 300 },
  )
})

test('redacts any value under the name of a secret', () => {
  const name = fc.constantFrom(
    'password',
    'apiKey',
    'x-api-key',
    'ACCESS_TOKEN',
    'Authorization',
    'cookie',
    'clientSecret',
    'db_passwd',
    'privateKey',
    'key',
    'otp',
  )
  const value = fc.oneof(
    fc.string({ minLength: 4 }),
    fc.integer({ min: 1000 }),
    fc.dictionary(fc.string(), fc.string(), { minKeys: 1 }),
  )
  fc.assert(
    fc.property(name, value, (secretName, secret) => {
      expect(redacted({ [secretName]: secret, other: 1 }, maxBytes)).toEqual({ [secretName]: '[redacted]', other: 1 })
    }),
    { seed },
  )
  expect(redacted({ hasToken: true, token: null }, maxBytes)).toEqual({ hasToken: true, token: null })
})

test.each([
  ['curl -H "Authorization: Bearer abcdefgh12" https://a.example', 'abcdefgh12'],
  ['psql postgres://bot:hunter2secret@db.example/x', 'hunter2secret'],
  ['login --password hunter2secret --user bot', 'hunter2secret'],
  ['DB_PASSWORD=hunter2secret node app.js', 'hunter2secret'],
  ['{"client_secret": "hunter2 secret"}', 'hunter2 secret'],
  ['Cookie: session=hunter2; other=hunter3', 'hunter'],
  ['https://a.example/cb?code=hunter2secret&x=1', 'hunter2secret'],
])('removes the secret from %s', (text, secret) => {
  expect(withoutCredentials(text)).not.toContain(secret)
  expect(withoutCredentials(text)).toContain('[redacted]')
})

test.each([
  'read /home/bot/projects/support-bot/src/handlers/message-handler.ts',
  'git commit -m "Make the monkey keyboard work"',
  'https://docs.example.com/guides/getting-started/installation?page=2#usage',
  'f47ac10b-58cc-4372-a567-0e02b2c3d479',
  '2026-11-21T12:19:35.123Z GET /api/instances/support-bot-1/status 200',
  'getElementsByClassNameAndTagName',
  'SELECT count(*) FROM customers WHERE country_code = 49',
])('leaves %s unchanged', (text) => {
  expect(withoutCredentials(text)).toBe(text)
})

const uuid = 'f47ac10b-58cc-4372-a567-0e02b2c3d479'
const ids = [
  'thread_abc4Q9xK2mZ7pL1wR8tY3vN6',
  'msg_01XFDUDYJgAACzvnptvVoYEL',
  'toolu_01A09q90qw90lq917835lq9',
  'chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT',
  `support-bot-${uuid}`,
  uuid,
  '01JD3Q9V7ZK8M2N4P6R8T0W2Y4',
]

// If they were redacted, all sessions of a fleet would be one.
test.each(ids)('leaves the id %s as it is', (id) => {
  expect(redactedId(id)).toBe(id)
  expect(redacted({ sessionId: id, thread_id: id, id }, maxBytes)).toEqual({ sessionId: id, thread_id: id, id })
})

test.each(ids.slice(0, 6))('leaves %s in a text', (id) => {
  expect(withoutCredentials(`continues ${id} now`)).toBe(`continues ${id} now`)
})

test('hashes an id that is a credential, so that equal ones stay equal', () => {
  fc.assert(
    fc.property(
      credential.filter(
        (text) => withoutCredentials(text) === '[redacted]' && /^(?:wl_|sk-|AKIA|gh|xox|eyJ|-)/.test(text),
      ),
      (secret) => {
        const shown = redactedId(secret)
        expect(shown).toMatch(/^sha256-[0-9a-f]{32}$/)
        expect(redactedId(secret)).toBe(shown)
        expect(redactedId(`${secret}0`)).not.toBe(shown)
        expect(redacted({ session_id: secret }, maxBytes)).toEqual({ session_id: shown })
      },
    ),
    { seed, numRuns: 300 },
  )
})

test('keeps long ids apart', () => {
  const [one, other] = [redactedId(`${'a'.repeat(300)}1`), redactedId(`${'a'.repeat(300)}2`)]
  expect(one).toHaveLength(200)
  expect(other).not.toBe(one)
})

test('does not treat similar names as names of secrets', () => {
  for (const name of ['monitor', 'path', 'author', 'keyboard', 'passenger', 'pinned', 'content']) {
    expect(isSecretName(name), name).toBe(false)
  }
})

// Arguments of a tool come from a model. Copying them must not throw into the agent, run their code or take long.
test('copies any value to plain JSON within the byte limit', () => {
  fc.assert(
    fc.property(
      fc.anything({
        withBigInt: true,
        withDate: true,
        withMap: true,
        withSet: true,
        withTypedArray: true,
        withNullPrototype: true,
        withSparseArray: true,
      }),
      fc.integer({ min: 1024, max: 16_384 }),
      (value, bytes) => {
        const text = JSON.stringify(redacted(value, bytes))
        expect(Buffer.byteLength(text)).toBeLessThanOrEqual(bytes)
      },
    ),
    { seed, numRuns: 1000 },
  )
})

test('stays within the byte limit for wide, deep and long values', () => {
  const wide = Object.fromEntries(
    Array.from({ length: 500 }, (_, place) => [`name ${place} ${'n'.repeat(200)}`, '\u0001'.repeat(5_000)]),
  )
  let deep: unknown = 'end'
  for (let level = 0; level < 10_000; level++) deep = { deep, wide: 'x'.repeat(100) }
  const long = Array.from({ length: 100_000 }, () => ['🦀'.repeat(300)])
  for (const value of [
    wide,
    deep,
    long,
    [
      [long, wide],
      [long, wide],
    ],
    '\ud800'.repeat(10_000),
  ]) {
    expect(Buffer.byteLength(JSON.stringify(redacted(value, maxBytes)))).toBeLessThanOrEqual(maxBytes)
  }
})

test('says how many entries of a list it leaves out', () => {
  const shown = redacted(
    Array.from({ length: 60 }, (_, place) => place),
    maxBytes,
  ) as unknown[]
  expect([shown.length, shown.at(-1)]).toEqual([51, '[10 more]'])
})

test('runs no code of the value and survives hostile objects', () => {
  let ran = 0
  const circle: Record<string, unknown> = { name: 'circle' }
  circle.self = circle
  const hostile = {
    get password() {
      ran += 1
      return 'hunter2'
    },
    get plain() {
      ran += 1
      throw new Error('no')
    },
    toJSON() {
      ran += 1
      return 'hunter2'
    },
    circle,
    big: 12345678901234567890n,
    call: () => 'hunter2',
    symbol: Symbol('hunter2'),
    proxy: new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error('no')
        },
        getPrototypeOf: () => {
          throw new Error('no')
        },
      },
    ),
    date: new Date(Number.NaN),
    bytes: new Uint8Array(12),
  }
  const copy = redacted(hostile, maxBytes)
  expect(ran).toBe(0)
  expect(JSON.stringify(copy)).not.toContain('hunter2')
  expect(copy).toMatchObject({
    circle: { name: 'circle', self: '[circular]' },
    proxy: '[unreadable]',
    bytes: '[12 bytes]',
  })
})
