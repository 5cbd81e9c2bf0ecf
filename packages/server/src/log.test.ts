import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createLog } from './log.ts'
import { adminKey, openTestService } from './testing/service.ts'

/** Control characters, as frequent as all other characters. */
const anyCharacter = fc
  .oneof(fc.nat(0x20), fc.integer({ min: 0x21, max: 0x10ffff }))
  .map((code) => String.fromCodePoint(code))

function capture(level = 'debug') {
  const lines: string[] = []
  return { lines, log: createLog(level, { write: (line) => void lines.push(line) }) }
}

describe('the log', () => {
  it('writes one JSON line per record, with time and level', () => {
    const { lines, log } = capture()
    log.warn({ instanceId: 'bot' }, 'something happened')
    expect(lines).toHaveLength(1)
    expect(JSON.parse(lines[0]!)).toEqual({
      level: 'warn',
      time: expect.stringMatching(/^\d{4}-.*Z$/),
      instanceId: 'bot',
      msg: 'something happened',
    })
  })

  it('writes nothing below its level', () => {
    const { lines, log } = capture('warn')
    log.info('unheard')
    expect(lines).toEqual([])
  })

  it.each([
    { key: 'hunter2' },
    { secret: 'hunter2' },
    { password: 'hunter2' },
    { authorization: 'hunter2' },
    { cookie: 'hunter2' },
    { value: 'hunter2' },
    { path: 'hunter2' },
    { body: { key: 'hunter2' } },
    { headers: { 'x-monitor-key': 'hunter2' } },
    { headers: { 'wardline-session': 'hunter2' } },
    { headers: { cookie: 'hunter2', authorization: 'hunter2' } },
    { request: { headers: { 'x-monitor-key': 'hunter2', 'wardline-session': 'hunter2' } } },
  ])('redacts fields with the name of a secret: %j', (fields) => {
    const { lines, log } = capture()
    log.info(fields, 'seen')
    expect(lines.join()).toContain('[redacted]')
    expect(lines.join()).not.toContain('hunter2')
  })

  // Otherwise an attacker's text with a line break could forge the next line.
  it('keeps hostile text in one line', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter }), (text) => {
        const { lines, log } = capture()
        log.info({ reason: text, err: new Error(text) }, text)
        expect(lines).toHaveLength(1)
        expect(lines[0]!.slice(0, -1)).not.toMatch(/[\u0000-\u001f]/)
        expect(JSON.parse(lines[0]!).level).toBe('info')
      }),
      { numRuns: 50 },
    )
  })
})

describe('the log of the service', () => {
  // Logs leave the machine and have many readers.
  it('contains no key, cookie, session secret or decoy, whatever fails', async () => {
    await using service = await openTestService()
    const { call } = service
    const created = await call<{ id: string; key: string }>('POST', '/api/keys', {
      body: { scope: 'operator', name: 'o' },
    })
    const session = await service.signIn()
    const decoy = await call<{ key: string }>('POST', '/api/honeypots', {
      body: { instanceId: 'bot', type: 'api_key', keyType: 'generic' },
    })
    await call('POST', '/api/honeypots', { body: { instanceId: 'bot', type: 'file_path', path: '/srv/hidden/place' } })
    await call('POST', '/api/heartbeat', { body: { instance_id: 'bot', name: 'bot' } })
    await call('POST', '/api/kill/bot', { key: created.body.key, body: { reason: 'x' } })
    await call('POST', '/api/honeypots/check/key', { body: { key: decoy.body.key } })
    await call('POST', '/api/honeypots/check/path', { body: { path: '/srv/hidden/place' } })
    await call('GET', '/api/status', { key: `${created.body.key}x` })
    await call('GET', '/api/status', { key: null, headers: session.headers })
    // Errors are the most likely place for leaks.
    for (const table of ['honeypot_hits', 'sessions', 'api_keys', 'events']) {
      await service.deps.database.db.schema.alterTable(table).renameTo(`hidden_${table}`).execute()
    }
    service.clock.advance(5_000)
    await call('POST', '/api/honeypots/check/key', { body: { key: decoy.body.key } })
    service.clock.advance(5_000)
    await call('GET', '/api/status', { key: null, headers: session.headers })
    service.clock.advance(5_000)
    await call('POST', '/api/keys', { body: { scope: 'operator', name: 'o' } })
    const logged = service.logged.join()
    expect(logged).toMatch(/no such table|does not exist/)
    const secrets = [
      adminKey,
      created.body.key,
      session.cookie.split('=')[1]!,
      session.secret,
      decoy.body.key,
      '/srv/hidden/place',
    ]
    for (const secret of secrets) expect(logged).not.toContain(secret)
  })
})
