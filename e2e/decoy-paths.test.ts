import { createMonitor } from '@wardline/sdk'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectRefusal, fields, uuid } from './expectations.ts'
import { allEvents, createKey, createPathDecoy, newInstance, unique } from './fleet.ts'
import { type Service, startService } from './service.ts'
import type { Decoy, DecoyList } from './shapes.ts'

let service: Service
let instanceId: string
beforeAll(async () => {
  service = await startService()
  instanceId = await newInstance(service, 'planted')
})
afterAll(() => service?.stop())

const check = (path: unknown, meta?: unknown) =>
  service.call<{ matched: boolean }>('POST', '/api/honeypots/check/path', { body: { path, meta } })
const trips = async () => (await allEvents(service)).filter((row) => row.event_type === 'honeypot_triggered')

describe('decoy paths', () => {
  const spellings: Record<string, string[]> = {
    '~/.aws/credentials_backup': [
      '~/.aws/credentials_backup',
      '$HOME/.aws/credentials_backup',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: this is how a shell writes it
      '${HOME}/.aws/credentials_backup',
      '/home/alice/.aws/credentials_backup',
      '/Users/alice/.aws/credentials_backup',
      '/root/.aws/credentials_backup',
      'C:\\Users\\alice\\.aws\\credentials_backup',
      '%USERPROFILE%\\.aws\\credentials_backup',
      '/home/alice//.aws/./credentials_backup',
      '/home/alice/.aws/../.aws/credentials_backup',
      '/home/alice/project/../.aws/credentials_backup',
      '/home/alice/.AWS/Credentials_Backup',
      '/home/alice/%2Eaws/credentials%5Fbackup',
      '/home/alice/%252Eaws%252Fcredentials_backup',
      'file:///home/alice/.aws/credentials_backup',
      'FILE://localhost/home/alice/.aws/credentials_backup',
      '/proc/self/root/home/alice/.aws/credentials_backup',
      '"~/.aws/credentials_backup"',
      ' ~/.aws/credentials_backup ',
      '~/.aws/credentials_backup/',
      '~/.aws/cred*',
    ],
    '/etc/shadow.bak': [
      '/etc/shadow.bak',
      '//etc/shadow.bak',
      '/etc/./shadow.bak',
      '/tmp/../etc/shadow.bak',
      '/../../etc/shadow.bak',
      '/proc/self/root/etc/shadow.bak',
      '/proc/1/root/etc/shadow.bak',
      '\\etc\\shadow.bak',
      '/ＥＴＣ/ｓｈａｄｏｗ.bak',
      '/ETC/SHADOW.BAK',
      'file:///etc/%73hadow.bak',
    ],
    'C:\\ProgramData\\aws\\credentials.bak': [
      'C:\\ProgramData\\aws\\credentials.bak',
      'c:/programdata/aws/credentials.bak',
      '\\\\?\\C:\\ProgramData\\aws\\credentials.bak',
      'C:\\ProgramData\\aws\\credentials.bak. ',
      'C:\\ProgramData\\aws\\credentials.bak::$DATA',
    ],
    '/srv/app/*.env': ['/srv/app/production.env', '/srv/app/../app/x.env'],
    '/srv/keys/**': ['/srv/keys/a', '/srv/keys/deep/down/id'],
    '/srv/log?/secret': ['/srv/log1/secret'],
  }

  const planted = new Map<string, Decoy>()
  beforeAll(async () => {
    for (const path of Object.keys(spellings)) planted.set(path, await createPathDecoy(service, instanceId, path))
  })

  test('answers a new path with exactly { ok, id, type, path, createdAt }', () => {
    for (const [path, decoy] of planted) {
      expect(fields(decoy)).toEqual(['createdAt', 'id', 'ok', 'path', 'type'])
      expect(decoy).toMatchObject({ ok: true, type: 'file_path', path })
      expect(decoy.id).toMatch(uuid)
    }
  })

  test.each(Object.keys(spellings))('recognises %s in every spelling', async (path) => {
    const missed: string[] = []
    for (const spelling of spellings[path] ?? []) {
      const answer = await check(spelling, { tool: 'file-read' })
      expect(answer.status, answer.text).toBe(200)
      expect(fields(answer.body)).toEqual(['matched'])
      if (!answer.body.matched) missed.push(spelling)
    }
    expect(missed).toEqual([])
  })

  test('resolves a relative path by the working directory that the agent sends', async () => {
    await createPathDecoy(service, instanceId, '/opt/vault/seed.bak')
    expect((await check('seed.bak', { tool: 'file-read', cwd: '/opt/vault' })).body).toEqual({ matched: true })
    expect((await check('../vault/seed.bak', { cwd: '/opt/other' })).body).toEqual({ matched: true })
    expect((await check('seed.bak', { cwd: '/opt/other' })).body).toEqual({ matched: false })
  })

  test.each([
    '/etc/shadow',
    '/etc/shadow.bak2',
    '/etc/shadow.bak/inside',
    '/var/etc/shadow.bak',
    '/home/alice/.aws/credentials',
    '/srv/app/sub/production.env',
    '/srv/app/production.envx',
    '/srv/keyring',
    '/srv/log12/secret',
    '/srv/log/secret',
    '/',
    '~',
    '.',
  ])('leaves %s alone', async (path) => {
    expect((await check(path)).body).toEqual({ matched: false })
  })

  test.each([
    '%',
    '%c0%ae%c0%ae/x',
    'file://elsewhere/x',
    'file:///%2F',
    '//?/',
    '[',
    '**',
    '../'.repeat(500),
    '%25'.repeat(900),
    `${'a/'.repeat(1500)}*`,
  ])('answers plainly for the odd path %s', async (path) => {
    const answer = await check(path)
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body).toEqual({ matched: expect.any(Boolean) })
  })

  // A pattern that matches everything would turn each file access into an alarm.
  test.each(['/**', '**', '*', '~/**', '/*'])('refuses the over-broad pattern %s', async (path) => {
    const answer = await service.call('POST', '/api/honeypots', { body: { instanceId, type: 'file_path', path } })
    expectRefusal(answer, 400, 'path')
  })

  test('records a breach for a touched path and lists the decoy without a key type', async () => {
    const decoy = await createPathDecoy(service, instanceId, `/srv/${unique('trap')}/passwords.kdbx`)
    const before = (await trips()).length
    expect((await check(decoy.path, { tool: 'file-read' })).body).toEqual({ matched: true })
    const after = await trips()
    expect(after).toHaveLength(before + 1)
    expect(after[0]).toMatchObject({ severity: 'breach', source: 'wardline' })
    const item = (await service.call<DecoyList>('GET', '/api/honeypots')).body.honeypots.find(
      (honeypot) => honeypot.id === decoy.id,
    )
    expect(item).toMatchObject({ id: decoy.id, type: 'file_path', createdAt: decoy.createdAt })
    expect(item?.keyType ?? null).toBeNull()
  })

  test('without an instance stop every agent that checks its calls by the SDK, and name the one that touched it', async () => {
    const path = `/srv/${unique('everywhere')}/passwords.kdbx`
    const { status, text, body } = await service.call<{ id: string }>('POST', '/api/honeypots', {
      body: { type: 'file_path', path },
    })
    expect(status, text).toBe(201)
    for (const id of [await newInstance(service, 'reader'), await newInstance(service, 'writer')]) {
      const key = await createKey(service, { scope: 'agent', instances: [id] })
      const monitor = createMonitor({ url: service.baseUrl, key, instanceId: id })
      await monitor.start()
      try {
        expect(await monitor.checkPath(path, { tool: 'file-read' })).toBe(true)
        expect(await monitor.checkPath('/srv/ordinary.txt', { tool: 'file-read' })).toBe(false)
      } finally {
        await monitor.stop()
      }
      expect((await trips())[0]).toMatchObject({
        instance_id: id,
        metadata: { honeypot_id: body.id, planted_at: null },
      })
    }
  })
})
