import { describe, expect, it } from 'vitest'
import { Results } from './results.ts'

const key = 'wl_agent_0123456789'
const describing = (key: string, withText: boolean) => {
  const results = new Results(key, withText)
  return { of: (value: unknown) => results.of(value)?.result }
}
const results = describing(key, false)
const token = `ghp_${'a1B2c3D4'.repeat(5)}`

describe('a reported result', () => {
  it('has the length, a hash that depends on the key, and no text', () => {
    const result = results.of('4711')
    expect(result).toEqual({ length: 4, hash: expect.stringMatching(/^[0-9a-f]{32}$/) })
    expect(results.of({ stdout: '4711', exit: true })).toEqual(result)
    expect(results.of('4712')!.hash).not.toBe(result!.hash)
    expect(describing(key, true).of('4711')!.hash).toBe(result!.hash)
    // Attack: a reader of events hashes all short results.
    expect(describing(`${key}x`, false).of('4711')!.hash).not.toBe(result!.hash)
  })

  it.each([
    ['-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----', ['private_key']],
    [`x ${token} y AKIAIOSFODNN7EXAMPLE`, ['aws_key', 'github_token']],
    ['DB=postgres://app:hunter@db.example/x', ['url_password']],
    ['API_KEY=abc12345def\n', ['named_secret']],
    ['Authorization: Bearer abcdefgh1234', ['authorization']],
    ['{"access_token": "abcd1234efgh"}', ['named_secret']],
    ['eyJhbGciOi1.eyJzdWIi.c2ln', ['jwt']],
    ['Set-Cookie: session=abc123def', ['cookie', 'named_secret']],
    // Source code and documentation.
    ['function login(token: string, password = readPassword()) {}', undefined],
    ['Basic authentication needs a cookie: see below. Set npm_config_registry, pk_customer_name', undefined],
    ['the secret of a good soup', undefined],
  ])('names the formats of secrets in %j', (text, formats) => {
    expect(results.of([{ deep: { text } }])!.secrets).toEqual(formats)
  })

  it('has the text without secrets only where that is switched on', () => {
    const text = `the answer is 42, ${token}`
    expect(JSON.stringify(results.of(text))).not.toContain('answer')
    const shown = describing(key, true).of(text)!
    expect(shown.text).toBe('the answer is 42, [redacted]')
    expect(describing(key, true).of('\u0001'.repeat(9_000))!.text!.length).toBeLessThan(500)
    expect(describing(key, true).of('word '.repeat(9_000))!.text!.length).toBeLessThanOrEqual(1_000)
  })

  it('is read within a bounded time and never throws, whatever the tool returned', () => {
    const circular: Record<string, unknown> = { a: 'x' }
    circular.self = circular
    const refusing = new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error('no')
        },
      },
    )
    expect(results.of(circular)).toMatchObject({ length: 8, cut: true })
    for (const value of [undefined, null, true, {}, [], refusing, () => 'x', Symbol('x')])
      expect(results.of(value)).toBeUndefined()
    expect(results.of(Buffer.from('abc'))).toEqual(results.of('abc'))
    const long = results.of('token=x1 ghp_ '.repeat(1_000_000))!
    expect(long).toMatchObject({ length: 14_000_000, cut: true })
    expect(results.of(Array.from({ length: 100_000 }, () => 'x'))).toMatchObject({ cut: true })
  })
})
