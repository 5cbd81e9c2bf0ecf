import {
  type DecoyAllowList,
  type HoneypotCreated,
  type HoneypotDetail,
  keyTypes,
  type Rotated,
} from '@wardline/contract'
import { afterEach, describe, expect, it } from 'vitest'
import { decoyInventory } from '../../db/migrations/0034-decoy-inventory.ts'
import { openRuleService, shellRule } from '../../testing/rule-service.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

const dayMs = 86_400_000
const open: TestService[] = []
afterEach(async () => {
  for (const service of open.splice(0)) await service[Symbol.asyncDispose]()
})

/** Opens a service with a channel that receives every alert. */
async function openService(env: Record<string, string> = {}): Promise<TestService> {
  const service = await openTestService({ env: { WARDLINE_ALERT_ALLOW_CIDRS: '203.0.113.0/24', ...env } })
  open.push(service)
  const settings = { url: 'https://203.0.113.7/services/x' }
  const body = { name: 'hook', type: 'slack', settings, min_severity: 'info' }
  expect((await service.call('POST', '/api/alert-channels', { body })).status).toBe(201)
  return service
}

async function plant(on: TestService, keyType = 'github', instanceId = 'bot-1') {
  const body = { instanceId, type: 'api_key', keyType, label: 'vault' }
  const answer = await on.call<HoneypotCreated>('POST', '/api/honeypots', { body })
  expect(answer.status).toBe(201)
  return { id: answer.body.id, key: answer.body.key! }
}
const check = (on: TestService, key: string, meta: object = {}) =>
  on.call<{ matched: boolean }>('POST', '/api/honeypots/check/key', { body: { key, meta } })
const detail = async (on: TestService, id: string) =>
  (await on.call<HoneypotDetail>('GET', `/api/honeypots/${id}`)).body
const rotate = (on: TestService, id: string) => on.call<Rotated>('POST', `/api/honeypots/${id}/rotate`)
const ignore = (on: TestService, more: object = {}) =>
  on.call<{ id: string; error?: string }>('POST', '/api/honeypots/ignores', {
    body: {
      tool: 'backup',
      reason: 'Reads all',
      until: new Date(on.clock.now() + dayMs).toISOString(),
      ...more,
    },
  })
const eventsOf = (on: TestService, id: string) =>
  on.rows<{ event_type: string; severity: string; description: string; metadata: string; instance_id: string | null }>(
    `select * from events where metadata like '%"honeypot_id":"${id}"%' order by seq`,
  )
const suspended = async (on: TestService) => (await on.rows('select id from instances where suspended = 1')).length
const alerts = async (on: TestService) => JSON.stringify(await on.rows('select * from alerts'))
const beat = (on: TestService, id: string) => on.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
async function everythingWritten(on: TestService) {
  const contents = await Promise.all((await on.tables()).map((name) => on.rows(`select * from ${name}`)))
  return JSON.stringify(contents) + on.logged.join()
}

describe('the state of a decoy', () => {
  it('goes from issued to planted to tripped to retired, and filters the list', async () => {
    const on = await openService()
    const { id, key } = await plant(on)
    const listed = async (state: string) =>
      (await on.call<{ honeypots: { id: string }[] }>('GET', `/api/honeypots?state=${state}`)).body.honeypots.map(
        (decoy) => decoy.id,
      )
    const stands = async (state: string) => {
      expect((await detail(on, id)).state).toBe(state)
      for (const other of ['issued', 'planted', 'tripped', 'retired'])
        expect((await listed(other)).includes(id), other).toBe(other === state)
    }
    await stands('issued')
    const body = { note: 'In the bot image', file: '/app/.env' }
    expect((await on.call('POST', `/api/honeypots/${id}/planted`, { body })).status).toBe(200)
    await stands('planted')
    expect((await detail(on, id)).planted).toMatchObject({ ...body, at: expect.any(String), by: expect.any(String) })
    await check(on, key, { instance_id: 'bot-1' })
    await stands('tripped')
    expect((await detail(on, id)).leaked_outside).toBe(false)
    await rotate(on, id)
    await stands('retired')
  })

  it('is derived from their hits for decoys of earlier versions', async () => {
    const on = await openService()
    const [touched, leaked, quiet] = [await plant(on), await plant(on), await plant(on)]
    await check(on, touched.key, { instance_id: 'bot-1' })
    await check(on, leaked.key, { instance_id: 'bot-2' })
    // Restores the schema from before the inventory.
    for (const column of ['planted_at', 'planted_by', 'planted_note', 'planted_file', 'tripped_at', 'leaked_at'])
      await on.execute(`alter table honeypots drop column ${column}`)
    for (const column of ['retired_at', 'replaced_by']) await on.execute(`alter table honeypots drop column ${column}`)
    for (const column of ['form', 'is_test', 'is_ignored'])
      await on.execute(`alter table honeypot_hits drop column ${column}`)
    await on.execute('drop table decoy_ignores')
    for (const statement of decoyInventory(on.deps.database.dialect.ddl)) await on.execute(statement)
    expect(await detail(on, touched.id)).toMatchObject({ state: 'tripped', leaked_outside: false, hit_count: 1 })
    expect(await detail(on, leaked.id)).toMatchObject({ state: 'tripped', leaked_outside: true })
    expect(await detail(on, quiet.id)).toMatchObject({ state: 'issued', leaked_outside: false })
  })
})

it('reports a decoy as leaked when another instance touches it', async () => {
  const on = await openService()
  const { id, key } = await plant(on)
  await check(on, key, { instance_id: 'bot-9' })
  const { leaked_outside, hits } = await detail(on, id)
  expect(leaked_outside).toBe(true)
  expect(hits[0]).toMatchObject({ reporter: 'bot-9', outside: true, test: false, ignored: false })
})

it.each([
  ['bare', (key: string) => key],
  ['header', (key: string) => `Authorization: Bearer ${key}`],
  ['env', (key: string) => `cd /app\nexport TOKEN="${key}"\nrun`],
  ['json', (key: string) => `{"a":1,"githubToken": "${key}"}`],
  ['url', (key: string) => `curl https://deploy:${key}@git.example/x`],
  ['text', (key: string) => `the key is ${key}, I think`],
  ['case', (key: string) => `key ${key.toUpperCase()} end`],
  ['base64', (key: string) => `echo ${Buffer.from(`a:${key} `).toString('base64')}`],
  ['hex', (key: string) => `echo ${Buffer.from(key).toString('hex')}`],
  ['reversed', (key: string) => [...key].reverse().join('')],
])('records that a key was found in the form %s', async (form, write) => {
  const on = await openService()
  const { id, key } = await plant(on)
  expect((await check(on, write(key))).body.matched).toBe(true)
  expect((await detail(on, id)).hits[0]!.form).toBe(form)
})

describe('rotating', () => {
  it('keeps the old value matching, reported as retired', async () => {
    const on = await openService()
    const { id, key } = await plant(on)
    const { status, body } = await rotate(on, id)
    expect(status).toBe(201)
    expect(body).toMatchObject({ replaces: id, keyType: 'github' })
    expect(body.key).not.toBe(key)
    expect((await check(on, key)).body.matched).toBe(true)
    expect((await check(on, body.key)).body.matched).toBe(true)
    expect(await detail(on, id)).toMatchObject({ state: 'retired', hit_count: 1, replaced_by: body.id })
    expect(await detail(on, body.id)).toMatchObject({ state: 'tripped', hit_count: 1, label: 'vault' })
    const [event] = await eventsOf(on, id)
    expect(event).toMatchObject({ severity: 'breach', description: 'A retired decoy key was touched' })
    expect(JSON.parse(event!.metadata)).toMatchObject({ retired: true })
    expect((await rotate(on, id)).status).toBe(400)
    const path = { instanceId: 'bot-1', type: 'file_path', path: '/srv/x/id_rsa' }
    const planted = await on.call<{ id: string }>('POST', '/api/honeypots', { body: path })
    expect((await rotate(on, planted.body.id)).status).toBe(400)
  })

  it('never stores or logs the new value, and rejects a note that contains it', async () => {
    const on = await openService()
    for (const keyType of keyTypes.filter((kind) => kind !== 'url')) {
      const { id } = await plant(on, keyType)
      const { key } = (await rotate(on, id)).body
      const noted = await on.call('POST', `/api/honeypots/${id}/planted`, { body: { note: key.slice(0, 500) } })
      await on.call('POST', `/api/honeypots/${id}/test`)
      await check(on, key)
      if (key.length <= 500) expect(noted.status, keyType).toBe(400)
      const parts = key.match(/[\w+/~.-]{20,}/g)!.filter((part) => /[A-Z\d]/.test(part) && !part.endsWith('.internal'))
      const written = await everythingWritten(on)
      for (const part of parts) expect(written.includes(part), `${keyType} ${part.slice(0, 4)}`).toBe(false)
    }
  })
})

describe('a test hit', () => {
  it('raises an alert marked as a test, but neither counts nor suspends', async () => {
    const on = await openService({ WARDLINE_AUTO_SUSPEND: 'decoy,breach' })
    await beat(on, 'bot-1')
    const { id } = await plant(on)
    expect((await on.call('POST', `/api/honeypots/${id}/test`)).status).toBe(201)
    const found = await detail(on, id)
    expect(found).toMatchObject({ state: 'issued', hit_count: 0, first_hit_at: null, leaked_outside: false })
    expect(found.hits).toMatchObject([{ test: true }])
    const [event] = await eventsOf(on, id)
    expect(event).toMatchObject({ severity: 'breach', event_type: 'honeypot_triggered', instance_id: null })
    expect(JSON.parse(event!.metadata).test).toBe(true)
    expect(await alerts(on)).toContain('Test: a decoy key was touched')
    expect(await suspended(on)).toBe(0)
  })

  it('does not fire a rule that enforces', async () => {
    await using on = await openRuleService()
    await on.runRules()
    await beat(on, 'bot-1')
    const rule = shellRule({
      mode: 'enforce',
      detection: { hit: { event_type: 'honeypot_triggered' }, condition: 'hit' },
      response: [{ action: 'alert' }],
      tests: {
        match: [[{ event_type: 'honeypot_triggered' }]],
        no_match: [[{ event_type: 'tool_call' }]],
      },
    })
    const ruleId = await on.create(rule)
    const { id, key } = await plant(on)
    await on.call('POST', `/api/honeypots/${id}/test`)
    await on.runRules()
    expect(await on.firings(ruleId)).toHaveLength(0)
    await check(on, key)
    await on.runRules()
    expect(await on.firings(ruleId)).toHaveLength(1)
  })
})

describe('an ignore rule', () => {
  it('counts the hits of its tool without an alert, until it ends', async () => {
    const on = await openService({ WARDLINE_AUTO_SUSPEND: 'decoy' })
    await beat(on, 'bot-1')
    const { id, key } = await plant(on)
    const made = await ignore(on)
    expect(made.status).toBe(201)
    const meta = { tool: 'backup', instance_id: 'bot-1' }
    // Still a match: the caller chooses the tool name and could otherwise bypass the decoy.
    expect((await check(on, key, meta)).body.matched).toBe(true)
    expect(await detail(on, id)).toMatchObject({ state: 'issued', hit_count: 1, hits: [{ ignored: true }] })
    expect(await eventsOf(on, id)).toMatchObject([{ event_type: 'honeypot_ignored', severity: 'info' }])
    expect(await alerts(on)).not.toContain('breach')
    expect(await suspended(on)).toBe(0)
    await check(on, key, { tool: 'backup2' })
    expect((await eventsOf(on, id)).at(-1)).toMatchObject({ event_type: 'honeypot_triggered' })
    on.clock.advance(dayMs)
    await check(on, key, meta)
    expect((await eventsOf(on, id)).at(-1)).toMatchObject({ event_type: 'honeypot_triggered', severity: 'breach' })
    expect(await suspended(on)).toBe(1)
    expect((await on.call<{ ignores: object[] }>('GET', '/api/honeypots/ignores')).body.ignores).toEqual([])
  })

  it('requires a reason and an end, and can be deleted', async () => {
    const on = await openService()
    const past = new Date(on.clock.now() - 1).toISOString()
    const far = new Date(on.clock.now() + 91 * dayMs).toISOString()
    for (const bad of [
      { reason: '' },
      { reason: ' ' },
      { until: past },
      { until: far },
      { until: 'x' },
      { tool: 'a\n' },
    ])
      expect((await ignore(on, bad)).status, JSON.stringify(bad)).toBe(400)
    const { id } = (await ignore(on)).body
    const list = async () => (await on.call<{ ignores: object[] }>('GET', '/api/honeypots/ignores')).body.ignores
    expect(await list()).toMatchObject([{ id, tool: 'backup', reason: 'Reads all' }])
    expect((await on.call('DELETE', `/api/honeypots/ignores/${id}`)).status).toBe(200)
    expect((await on.call('DELETE', `/api/honeypots/ignores/${id}`)).status).toBe(404)
    expect(await list()).toEqual([])
  })
})

it('lists the files with decoys for secret scanners, and the decoys without a known file', async () => {
  const on = await openService()
  const [placed, unplaced] = [await plant(on), await plant(on)]
  const body = { note: 'n', file: 'config/prod.json' }
  await on.call('POST', `/api/honeypots/${placed.id}/planted`, { body })
  const { body: list, text } = await on.call<DecoyAllowList>('GET', '/api/honeypots/allow-list')
  expect(list).toEqual({
    paths: [{ id: placed.id, instanceId: 'bot-1', path: 'config/prod.json' }],
    unplaced: [unplaced.id],
  })
  expect(text).not.toContain(placed.key)
})
