import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { secretRemover, secretsOfSettings } from './without-secrets.ts'

const remove = (settings: unknown) => secretRemover(secretsOfSettings(settings))

const html = (text: string) =>
  text.replaceAll(/[&<>"']/g, (found) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[found] ?? '&#39;')
const numeric = (text: string) => [...text].map((character) => `&#x${character.codePointAt(0)!.toString(16)};`).join('')
const unicode = (text: string) =>
  Array.from({ length: text.length }, (_, index) => `\\u${text.charCodeAt(index).toString(16).padStart(4, '0')}`).join(
    '',
  )
const everyByte = (text: string) =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')

/** Encodings in which a server may repeat the request in its response. */
const writers: [name: string, write: (text: string) => string][] = [
  ['as it is', (text) => text],
  ['percent-encoded', encodeURIComponent],
  ['percent-encoded in capitals and small letters', (text) => encodeURIComponent(text).toLowerCase()],
  ['every byte percent-encoded', everyByte],
  ['percent-encoded twice', (text) => encodeURIComponent(encodeURIComponent(text))],
  ['as a form', (text) => new URLSearchParams({ x: text }).toString().slice(2)],
  ['as JSON', (text) => JSON.stringify(text).slice(1, -1)],
  ['as JSON with escaped slashes', (text) => JSON.stringify(text).slice(1, -1).replaceAll('/', '\\/')],
  ['as JSON in ASCII', unicode],
  ['as JSON within JSON', (text) => JSON.stringify(JSON.stringify(text)).slice(3, -3)],
  ['as HTML', html],
  ['as numeric entities', numeric],
  ['percent-encoded and as HTML', (text) => html(encodeURIComponent(text))],
]

describe.each(writers)('a response that contains a secret %s', (_, write) => {
  const secrets = {
    'the value of a query': 'p/a+s s=ä&"w<o>rd\'🦊%',
    'a token': 'xoxb-12:34/AB+CD==',
  }
  it.each(Object.entries(secrets))('is shown without %s', (_name, secret) => {
    const url = `https://hooks.example.com/in?first=1&sig=${encodeURIComponent(secret)}`
    const clean = remove({ url, token: secret })
    const text = clean(`unknown parameter "${write(secret)}" here`)
    expect(text).toBe('unknown parameter "[secret]" here')
  })

  it('is shown without the secret, whatever characters it has', () => {
    // Letters around the secret, so that its ends are unambiguous.
    const text = fc
      .string({ unit: 'grapheme', minLength: 2, maxLength: 40 })
      .filter((value) => value.isWellFormed())
      .map((value) => `k${value}k`)
    fc.assert(
      fc.property(text, (secret) => {
        expect(remove({ token: secret })(`<${write(secret)}>`)).toBe('<[secret]>')
      }),
      { numRuns: 300 },
    )
  })
})

// A viewer of the delivery log could otherwise learn the webhook URL and post to the chat.
describe('a response', () => {
  it.each([
    [
      'https://hooks.slack.com/services/T0001/B0002/abcdefgh',
      ['T0001', 'B0002', 'abcdefgh', '/services/T0001/B0002/abcdefgh'],
    ],
    ['https://discord.com/api/webhooks/1234/token_of-it?thread_id=77777', ['1234', 'token_of-it', '77777']],
    ['https://example.com/x?key=abcd&b=efgh', ['key=abcd&b=efgh', 'abcd', 'efgh', 'key=abcd']],
    ['https://example.com/?onlyvalue', ['onlyvalue']],
    ['https://example.com/?sig=ab%2Bcd%3D%3D', ['ab%2Bcd%3D%3D', 'ab+cd==', 'ab%2bcd%3d%3d']],
    ['https://example.com/?bad=%zz%41bcd', ['%zz%41bcd']],
    ['smtp://me:p%40ss@mail.example.com', ['p@ss', 'p%40ss']],
  ])('is shown without any part of %s but the host', (url, parts) => {
    const clean = remove({ url })
    for (const part of parts) expect(clean(`got "${part}"`)).toBe('got "[secret]"')
    expect(clean(`cannot send to ${url}`)).toBe('cannot send to [secret]')
    expect(clean('answered by example.com')).toContain('example.com')
  })

  it('is shown without the token of a bot and without a rotated secret', () => {
    const clean = remove([{ token: '123456:AAbbCC', chat_id: '-1001234567890' }, [{ secret: 'whsec_b2xk', until: 5 }]])
    expect(clean('POST /bot123456%3AAAbbCC/sendMessage')).toBe('POST /bot[secret]/sendMessage')
    expect(clean('signed with whsec_b2xk')).toBe('signed with [secret]')
  })
})

// The process that reads the response also delivers kills. An attacker who can add a channel chooses its URL as well.
it.each([
  ['a long path', `${'ab'.repeat(900)}?x=${'%5C'.repeat(50)}`],
  ['a path of one letter', 'a'.repeat(2_000)],
  ['hundreds of parameters', `?${Array.from({ length: 400 }, (_, index) => (46_656 + index).toString(36)).join('&')}`],
])('hostile responses of a receiver with %s are processed in linear time', (_, path) => {
  const before = process.threadCpuUsage()
  const clean = remove({ url: `https://example.com/${path}` })
  const parts = ['x', 'a', 'ab', '\\', '%25', '&amp;#0', '&#0000000000', '%252561', `${'a'.repeat(1_999)}b`]
  for (const part of parts) clean(part.repeat(64_000 / part.length))
  // Work that grows with the number of secrets times the text took 4 to 20 seconds.
  expect(process.threadCpuUsage(before).user).toBeLessThan(1_500_000)
})

it('removes a secret that the end of the shown part cuts', () => {
  const clean = remove({ token: 'abcdefgh' })
  expect(clean(`${'x'.repeat(96)}abcdefgh and more`, 100)).toBe(`${'x'.repeat(96)}[secret]`)
  const long = remove({ token: 'k0'.repeat(4_000) })
  expect(long(`to ${'k0'.repeat(4_000)} and more`, 100)).toBe('to [secret]')
})
