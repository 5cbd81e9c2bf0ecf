import { keyTypes } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listJobs } from '../../jobs.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { completeFolders } from './honeypots.ts'

interface Detail {
  hit_count: number
  deleted_at: string | null
  hits: { reporter: string | null; tool: string | null; event_id: string; ip_address: string | null }[]
}

let service: TestService
let agent: string
beforeAll(async () => {
  service = await openTestService({ env: { WARDLINE_DECOY_URL: 'https://files.example.com' } })
  agent = (await service.createKey('agent', ['bot-1'])).key
})
afterAll(() => service[Symbol.asyncDispose]())

async function plantKey(keyType: string, instanceId = 'bot-1') {
  const { status, body } = await service.call<{ id: string; key: string }>('POST', '/api/honeypots', {
    body: { instanceId, type: 'api_key', keyType },
  })
  expect(status).toBe(201)
  return body
}
async function plantPath(path: string, instanceId = 'bot-1', on = service) {
  const body = { instanceId, type: 'file_path', path }
  const answer = await on.call<{ id: string }>('POST', '/api/honeypots', { body })
  expect(answer.status).toBe(201)
  return answer.body.id
}
const check = (kind: 'key' | 'path', text: string, options: { key?: string; meta?: object; on?: TestService } = {}) =>
  (options.on ?? service).call<{ matched?: boolean; error?: string }>('POST', `/api/honeypots/check/${kind}`, {
    body: { [kind]: text, ...(options.meta ? { meta: options.meta } : {}) },
    ...(options.key ? { key: options.key } : {}),
  })
const matches = async (...given: Parameters<typeof check>) => {
  const { status, body } = await check(...given)
  expect(status).toBe(200)
  return body.matched
}
const detail = async (id: string) => (await service.call<Detail>('GET', `/api/honeypots/${id}`)).body
const eventsOf = (id: string) =>
  service.rows<{ id: string; severity: string; source: string; event_type: string; instance_id: string }>(
    `select * from events where metadata like '%"honeypot_id":"${id}"%' order by seq`,
  )
/** The parts of a decoy that each identify it alone. */
const secretsIn = (key: string) =>
  key.match(/[\w+/~.-]{20,}/g)!.filter((part) => /[A-Z\d]/.test(part) && !part.endsWith('.internal'))
/** Returns everything that was written: every table, and the log. */
async function everythingWritten() {
  const tables = await service.tables()
  const contents = await Promise.all(tables.map((name) => service.rows(`select * from ${name}`)))
  return JSON.stringify(contents) + service.logged.join()
}

describe('a touched decoy', () => {
  it('is recorded as a hit and as a breach before the response', async () => {
    const { id, key } = await plantKey('github')
    expect(await matches('key', `Authorization: token ${key}`, { key: agent, meta: { tool: 'http-request' } })).toBe(
      true,
    )
    const { hit_count, hits } = await detail(id)
    expect(hit_count).toBe(1)
    expect(hits[0]).toMatchObject({ reporter: 'bot-1', tool: 'http-request', ip_address: '127.0.0.1' })
    expect(await eventsOf(id)).toMatchObject([
      {
        id: hits[0]!.event_id,
        severity: 'breach',
        source: 'wardline',
        event_type: 'honeypot_triggered',
        instance_id: 'bot-1',
      },
    ])
  })

  // A breach without its hit, or a hit without its breach, would be incomplete evidence.
  it.each(['honeypot_hits', 'events'])('is recorded completely or not at all when writing %s fails', async (table) => {
    const { id, key } = await plantKey('npm')
    const allow = await service.refuse('insert', table)
    expect((await check('key', key)).status).toBe(500)
    expect(await eventsOf(id)).toEqual([])
    expect((await detail(id)).hit_count).toBe(0)
    await allow()
    expect(await matches('key', key)).toBe(true)
    expect(await eventsOf(id)).toHaveLength(1)
  })

  it.each(keyTypes)('of kind %s is found as it was shown, and its text is never stored or logged', async (keyType) => {
    const { id, key } = await plantKey(keyType)
    expect(await matches('key', key, { key: agent })).toBe(true)
    expect((await detail(id)).hit_count).toBe(1)
    const parts = secretsIn(key)
    const written = await everythingWritten()
    for (const part of parts) expect(written.includes(part), part.slice(0, 4)).toBe(false)
  })

  it('is not reported for other texts and paths', async () => {
    await plantKey('stripe')
    for (const text of ['sk_live_nothing', 'hello', 'x'.repeat(1_000)]) expect(await matches('key', text)).toBe(false)
    for (const path of ['/etc/hostname', 'README.md', '~', '/']) expect(await matches('path', path)).toBe(false)
  })

  // The context is stored and streamed to all viewers: a key in it would be exposed.
  it.each(keyTypes)('of kind %s cannot be smuggled into its own event as context', async (keyType) => {
    const { id, key } = await plantKey(keyType)
    const parts = secretsIn(key)
    for (const part of parts) {
      const meta = { tool: part, toolName: part, instance_id: part, instanceId: part, cwd: part, note: { deep: part } }
      await check('key', key, { key: agent, meta })
    }
    expect((await detail(id)).hit_count).toBe(parts.length)
    const written = await everythingWritten()
    for (const part of parts) expect(written.includes(part), part.slice(0, 4)).toBe(false)
  })

  it('stores the name of a tool as context, and drops anything else', async () => {
    const { id, key } = await plantKey('slack')
    const kept = ['shell-exec', 'mcp:files/read v2', 'executeDatabaseQuery']
    const dropped = ['<script>alert(1)</script>', 'a\nb', 'x'.repeat(25), '', 7, null, ['shell-exec']]
    for (const tool of [...kept, ...dropped]) await check('key', key, { meta: { tool } })
    const { hits } = await detail(id)
    expect(
      hits
        .map(({ tool }) => tool)
        .filter((tool) => tool !== null)
        .toSorted(),
    ).toEqual(kept.toSorted())
    expect(hits).toHaveLength(kept.length + dropped.length)
  })

  // Otherwise a detected agent could blame another one.
  it('is attributed to the instance of the key, not to one that the agent names', async () => {
    const { id, key } = await plantKey('gitlab', 'bot-7')
    await check('key', key, { key: agent, meta: { instance_id: 'bot-9' } })
    expect((await detail(id)).hits[0]).toMatchObject({ reporter: 'bot-1' })
    expect(await eventsOf(id)).toMatchObject([{ instance_id: 'bot-1' }])
  })

  it('is attributed to the instance that a full-access key names, else to the one where it was planted', async () => {
    const { id, key } = await plantKey('gitlab', 'bot-7')
    await check('key', key, { meta: { instance_id: 'bot-9' } })
    await check('key', key)
    expect((await eventsOf(id)).map(({ instance_id }) => instance_id)).toEqual(['bot-9', 'bot-7'])
  })
})

describe('a decoy key', () => {
  it('matches with any API key, wherever it was planted', async () => {
    const { id, key } = await plantKey('openai', 'bot-2')
    expect(await matches('key', key, { key: agent })).toBe(true)
    expect((await detail(id)).hit_count).toBe(1)
  })
})

describe('a decoy path', () => {
  // Paths belong to one host. Otherwise an agent could find, and trigger, the decoys of another one.
  it('does not match for an agent of another instance, and records no hit', async () => {
    const other = await plantPath('/srv/other/secret.env', 'bot-2')
    const pattern = await plantPath('/srv/patterns/other*.key', 'bot-2')
    for (const path of ['/srv/other/secret.env', '/srv/patterns/other1.key', 'cat /srv/other/sec*']) {
      expect(await matches('path', path, { key: agent }), path).toBe(false)
      expect(await matches('path', path), path).toBe(true)
    }
    expect((await detail(other)).hit_count).toBe(2)
    expect((await detail(pattern)).hit_count).toBe(1)
  })

  it('records the hit at the calling instance when several have the same path', async () => {
    const [theirs, own] = [await plantPath('/srv/shared.pem', 'bot-0'), await plantPath('/srv/shared.pem', 'bot-1')]
    expect(await matches('path', '/srv/shared.pem', { key: agent })).toBe(true)
    expect([(await detail(theirs)).hit_count, (await detail(own)).hit_count]).toEqual([0, 1])
  })

  it('is found by a glob that covers it', async () => {
    const id = await plantPath('/srv/globs/credentials.json')
    expect(await matches('path', 'tar c /srv/globs/cred*')).toBe(true)
    expect(await matches('path', 'tar c /srv/globs/other*')).toBe(false)
    expect((await detail(id)).hit_count).toBe(1)
  })

  it('is found by its path from the working folder, and by its resolved path', async () => {
    await plantPath('/srv/jobs/here/vault.kdbx')
    expect(await matches('path', 'here/vault.kdbx', { meta: { cwd: '/srv/jobs' } })).toBe(true)
    expect(await matches('path', 'link', { meta: { realPath: '/srv/jobs/here/vault.kdbx' } })).toBe(true)
    expect(await matches('path', 'link')).toBe(false)
  })

  it('with wildcards takes effect in every process after its next refresh', async () => {
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    const id = await plantPath('/srv/elsewhere/*.p12', 'bot-1', other)
    expect(await matches('path', '/srv/elsewhere/a.p12', { on: other })).toBe(true)
    await service.services.decoyChecks.refresh()
    expect(await matches('path', '/srv/elsewhere/a.p12')).toBe(true)
    await other.call('DELETE', `/api/honeypots/${id}`)
    await service.services.decoyChecks.refresh()
    expect(await matches('path', '/srv/elsewhere/a.p12')).toBe(false)
  })

  it('that is too broad is rejected with an error message', async () => {
    for (const path of ['*', '/**', '~', '/', '**/*', '/etc/*']) {
      const body = { instanceId: 'bot-1', type: 'file_path', path }
      const answer = await service.call<{ error: string }>('POST', '/api/honeypots', { body })
      expect(answer.status, path).toBe(400)
      expect(answer.body.error, path).toMatch(/^path is refused\. .*\.$/)
    }
  })
})

const ownEvents = async (type: string) => {
  await service.services.ingest.whenIdle()
  return service.rows<{ severity: string; description: string; metadata: string; instance_id: string | null }>(
    `select severity, description, metadata, instance_id from events where event_type = '${type}' order by seq`,
  )
}

describe('a folder that contains a decoy', () => {
  it('is a hit when a command reads all of it, and a warning once a minute for a folder above', async () => {
    const id = await plantPath('~/.swept/tokens.json')
    const options = { key: agent, meta: { cwd: '/srv/app', tool: 'shell-exec' } }
    for (const command of ['grep -r NOTE ~', 'find / -name x', 'grep -r NOTE ~']) {
      expect(await matches('path', command, options), command).toBe(false)
    }
    const warnings = await ownEvents('decoy_swept')
    expect(warnings).toMatchObject([{ severity: 'warning', instance_id: 'bot-1' }])
    expect(JSON.parse(warnings[0]!.metadata)).toMatchObject({ occurrences: 1, tool: 'shell-exec' })
    expect((await detail(id)).hit_count).toBe(0)
    expect(await matches('path', 'tar c ~/.swept | base64', options)).toBe(true)
    expect((await detail(id)).hit_count).toBe(1)
  })

  it('causes one warning per key, however many instances the key names', async () => {
    await plantPath('~/.swept-too/tokens.json')
    const before = (await ownEvents('decoy_swept')).length
    const { key } = await service.createKey('agent', ['bot-*'])
    for (const instance_id of ['bot-1', 'bot-2', 'bot-3']) {
      await matches('path', 'grep -r NOTE ~', { key, meta: { cwd: '/srv/app', instance_id } })
    }
    expect((await ownEvents('decoy_swept')).length - before).toBe(1)
  })

  it('is found for a decoy planted by an earlier version', async () => {
    await using other = await openTestService()
    const id = await plantPath('/srv/earlier/vault/tokens.json', 'bot-1', other)
    const [{ digest }] = (await other.rows<{ digest: string }>(
      `select digest from honeypot_fingerprints where honeypot_id = '${id}' limit 1`,
    )) as [{ digest: string }]
    await other.execute(`delete from honeypot_fingerprints where digest <> '${digest}'`)
    await other.execute(`delete from facts where name = 'decoy_folders'`)
    const { matched } = (await check('path', 'tar c /srv/earlier/vault', { on: other })).body
    expect(matched).toBe(false)
    await completeFolders(other.deps)
    expect(await matches('path', 'tar c /srv/earlier/vault', { on: other })).toBe(true)
  })

  it('is found for a decoy that a process of an earlier version plants during an upgrade', async () => {
    await using other = await openTestService()
    const jobs = listJobs(other.deps, other.services)
    other.clock.advance(3_600_000)
    const id = await plantPath('/srv/meanwhile/vault/tokens.json', 'bot-1', other)
    await other.execute(`delete from honeypot_fingerprints where honeypot_id = '${id}'`)
    expect(await matches('path', 'tar c /srv/meanwhile/vault', { on: other })).toBe(false)
    const job = jobs.find(({ name }) => name === 'decoy-folders')
    await job?.run()
    expect(await matches('path', 'tar c /srv/meanwhile/vault', { on: other })).toBe(true)
  })

  it('is added to many earlier decoys in one transaction per page', async () => {
    await using other = await openTestService()
    for (let n = 0; n < 5; n++) await plantPath(`/srv/many/${n}/tokens.json`, 'bot-1', other)
    await other.execute('delete from honeypot_fingerprints')
    await other.execute(`delete from facts where name = 'decoy_folders'`)
    let batches = 0
    const { database } = other.deps
    const batch: typeof database.batch = (...args) => {
      batches++
      return database.batch(...args)
    }
    await completeFolders({ ...other.deps, database: { ...database, batch } })
    expect(batches).toBe(1)
    for (let n = 0; n < 5; n++) expect(await matches('path', `tar c /srv/many/${n}`, { on: other })).toBe(true)
  })

  it('does not match for an agent of another instance', async () => {
    await plantPath('~/.others/tokens.json', 'bot-2')
    expect(await matches('path', 'tar c ~/.others', { key: agent })).toBe(false)
    expect(await matches('path', 'tar c ~/.others')).toBe(true)
  })
})

// Padding that may hide a decoy must be reported.
describe('a check that exceeds its budget', () => {
  it('returns what was found so far, and is reported once a minute with a count', async () => {
    const padding = 'cd a;'.repeat(800)
    const meta = { cwd: `/home/x/${'y/'.repeat(1_000)}` }
    for (let time = 0; time < 3; time++) expect(await matches('path', padding, { key: agent, meta })).toBe(false)
    expect(await ownEvents('decoy_check_exhausted')).toMatchObject([{ severity: 'warning', instance_id: 'bot-1' }])
    service.clock.advance(60_000)
    await service.services.countedReports.run()
    const events = await ownEvents('decoy_check_exhausted')
    expect(events.map(({ metadata }) => JSON.parse(metadata).occurrences)).toEqual([1, 2])
    expect(events.map(({ description }) => description.split(' exceeded ')[0])).toEqual(['A text', '2 texts'])
    const { text } = await service.call('GET', '/metrics')
    expect(text).toContain('wardline_decoy_checks_exhausted_total{kind="path"} 3')
  })
})

describe('a deleted decoy', () => {
  it('no longer matches and keeps its hits', async () => {
    const { id, key } = await plantKey('anthropic')
    const paths = [await plantPath('/srv/gone/exact.env'), await plantPath('/srv/gone/*.pattern')]
    for (const found of [
      check('key', key),
      check('path', '/srv/gone/exact.env'),
      check('path', '/srv/gone/a.pattern'),
    ]) {
      expect((await found).body.matched).toBe(true)
    }
    for (const decoy of [id, ...paths]) {
      expect((await service.call('DELETE', `/api/honeypots/${decoy}`)).body).toEqual({ ok: true, id: decoy })
      expect((await service.call('DELETE', `/api/honeypots/${decoy}`)).status).toBe(404)
      expect(await detail(decoy)).toMatchObject({ hit_count: 1, deleted_at: expect.any(String) })
    }
    expect(await matches('key', key)).toBe(false)
    for (const path of ['/srv/gone/exact.env', '/srv/gone/a.pattern', '/srv/gone/ex*']) {
      expect(await matches('path', path), path).toBe(false)
    }
    const { body } = await service.call<{ honeypots: { id: string }[] }>('GET', '/api/honeypots')
    expect(body.honeypots.map((listed) => listed.id)).not.toContain(id)
  })
})

describe('the list of decoys', () => {
  interface Listed {
    id: string
    details?: { instanceId: string; label: string | null; path?: string; hit_count: number; last_hit_at: string | null }
  }
  const listed = async (id: string) => {
    const { body } = await service.call<{ honeypots: Listed[] }>('GET', '/api/honeypots?include=details')
    return body.honeypots.find((row) => row.id === id)?.details
  }

  it('shows where each is planted, its number of hits and its last hit', async () => {
    const path = '/srv/listed/decoy.env'
    const body = { instanceId: 'bot-1', type: 'file_path', path, label: 'backup folder' }
    const { id } = (await service.call<{ id: string }>('POST', '/api/honeypots', { body })).body
    const planted = { instanceId: 'bot-1', label: 'backup folder', path }
    expect(await listed(id)).toMatchObject({ ...planted, hit_count: 0, last_hit_at: null })
    await matches('path', path)
    await matches('path', path)
    const { hits } = (await service.call<{ hits: { at: string }[] }>('GET', `/api/honeypots/${id}`)).body
    expect(await listed(id)).toMatchObject({ ...planted, hit_count: 2, last_hit_at: hits[0]!.at })
  })

  // If every hit was counted, an attacker could slow the list down by adding hits.
  it('counts at most 1,000 hits of one decoy', async () => {
    const { id } = await plantKey('generic')
    const rows = Array.from({ length: 1_005 }, (_, index) => {
      const hit = `00000000-0000-7000-8000-${String(index).padStart(12, '0')}`
      return `('${hit}', '${id}', '${hit}', ${index}, 'k')`
    })
    await service.execute(`insert into honeypot_hits (id, honeypot_id, event_id, at, key_id) values ${rows.join(', ')}`)
    expect(await listed(id)).toMatchObject({ hit_count: 1_000, last_hit_at: new Date(1_004).toISOString() })
  })
})

describe('the text of a check', () => {
  it('is rejected above 64 KiB for keys and 4 KiB for paths', async () => {
    const { key } = await plantKey('generic')
    expect((await check('key', 'x'.repeat(64 * 1024 + 1))).status).toBe(400)
    expect(await matches('key', `${'x '.repeat(32 * 1024 - 100)} ${key}`)).toBe(true)
    expect((await check('path', 'x'.repeat(4_097))).status).toBe(400)
  })

  // Only a bounded length is searched: multi-byte characters must not push a decoy beyond it.
  it('is searched completely or rejected, whatever characters pad it', async () => {
    const { key } = await plantKey('generic')
    await plantPath('/srv/padded/decoy.env')
    for (const padding of ['🦀', 'é', '中', ' ']) {
      const keyAnswer = await check('key', `${padding.repeat(50_000)} ${key}`)
      expect(keyAnswer.status === 400 || keyAnswer.body.matched, `key after ${padding}`).toBe(true)
      const pathAnswer = await check('path', `echo ${padding.repeat(4_000)} ; cat /srv/padded/decoy.env`)
      expect(pathAnswer.status === 400 || pathAnswer.body.matched, `path after ${padding}`).toBe(true)
    }
  })
})

describe('creating a decoy', () => {
  it.each([
    [{ type: 'api_key' }, 'keyType is required for type api_key.'],
    [{ type: 'file_path' }, 'path is required for type file_path.'],
    [{ type: 'api_key', keyType: 'pager' }, 'keyType must be openai'],
    [{ type: 'other', keyType: 'openai' }, 'type must be api_key, or file_path.'],
  ])('from %j is rejected', async (fields, sentence) => {
    const answer = await service.call<{ error: string }>('POST', '/api/honeypots', {
      body: { instanceId: 'bot-1', ...fields },
    })
    expect(answer.status).toBe(400)
    expect(answer.body.error).toContain(sentence)
  })

  it('is recorded in the audit log, without its value', async () => {
    const { id, key } = await plantKey('sendgrid')
    const { body, text } = await service.call<{ entries: { action: string; target: string }[] }>(
      'GET',
      '/api/audit?limit=1000',
    )
    expect(body.entries.find(({ target }) => target === id)?.action).toBe('honeypot.create')
    expect(text).not.toContain(key)
  })
})
