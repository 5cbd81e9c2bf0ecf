import type { EventRow, SearchHit, SearchKind, SearchReply } from '@wardline/contract'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
beforeEach(async () => {
  const opened = await openTestService({ env: { ALERT_WEBHOOK_URL: 'http://127.0.0.1:9/xylograph' } })
  service = opened
  onTestFinished(() => opened[Symbol.asyncDispose]())
})

async function ok<Body>(method: 'POST' | 'PUT' | 'DELETE', url: string, body?: object): Promise<Body> {
  const answer = await service.call<Body>(method, url, { body })
  expect(answer.status, answer.text).toBeLessThan(300)
  return answer.body
}
const beat = (instance_id: string, name = instance_id, tags: string[] = []) =>
  ok('POST', '/api/heartbeat', { instance_id, name, tags })
const report = (body: object) =>
  ok<{ id: string }>('POST', '/api/events', { source: 'test', event_type: 'note', description: 'x', ...body })

const ask = (q: string, more = '', key?: string) =>
  service.call<SearchReply & { error: string }>('GET', `/api/search?q=${encodeURIComponent(q)}${more}`, { key })
async function find(q: string, key?: string): Promise<{ [Kind in SearchKind]?: SearchHit[] }> {
  const { status, text, body } = await ask(q, '', key)
  expect(status, text).toBe(200)
  return Object.fromEntries(body.groups.map(({ kind, hits }) => [kind, hits]))
}

describe('finds', () => {
  test('agents by id, name and tag, also with a typo', async () => {
    await beat('billing-1', 'Refunds of Europe', ['team:payroll'])
    await beat('support-bot')
    for (const q of ['billing-1', 'biling', 'BILLING', 'refunds', 'payroll', 'europe refunds']) {
      expect((await find(q)).agent, q).toEqual([
        {
          id: 'billing-1',
          title: 'Refunds of Europe',
          detail: 'team:payroll',
          instance_id: null,
          seq: null,
          at: null,
        },
      ])
    }
    expect((await find('suport')).agent).toMatchObject([{ id: 'support-bot' }])
    expect(await find('payment')).toEqual({})
  })

  test('what is new at once', async () => {
    await find('billing')
    await beat('billing-1', 'Refunds')
    expect((await find('refunds')).agent).toMatchObject([{ id: 'billing-1' }])
  })

  test('decoys by label, path and agent, and never by their value', async () => {
    const plant = (body: object) =>
      ok<{ id: string; key?: string }>('POST', '/api/honeypots', { instanceId: 'billing-1', ...body })
    const path = await plant({ type: 'file_path', path: '/srv/payroll/id_rsa' })
    const key = await plant({ type: 'api_key', keyType: 'openai', label: 'In the image of refunds' })
    expect((await find('payroll')).decoy).toMatchObject([{ id: path.id, title: '/srv/payroll/id_rsa' }])
    expect((await find('refunds')).decoy).toMatchObject([
      { id: key.id, title: 'openai key', detail: 'In the image of refunds', instance_id: 'billing-1' },
    ])
    expect((await find('biling')).decoy).toHaveLength(2)
    for (const value of [key.key!.slice(0, 100), key.key!.slice(-20)]) {
      const { body, text } = await ask(value)
      expect(body.groups).toEqual([])
      expect(text).not.toContain(value)
    }
    await ok('DELETE', `/api/honeypots/${path.id}`)
    expect(await find('payroll')).toEqual({})
  })

  test('rules and policies by title, alerts by title, type and agent, and events by id', async () => {
    const detection = { any: { event_type: 'note' }, condition: 'any' }
    const rule = await ok<{ id: string }>('POST', '/api/rules', { title: 'Exfiltration', severity: 'info', detection })
    const policy = await ok<{ id: string }>('POST', '/api/policies', { title: 'Mail outside' })
    const { id } = await report({ severity: 'critical', event_type: 'policy_violation', instance_id: 'billing-1' })
    await ok('PUT', '/api/lists/allowed-hosts', {
      version: 0,
      description: 'Partners of billing',
      entries: ['files.example'],
    })
    for (const q of ['allowed', 'host', 'partners']) {
      expect((await find(q)).list, q).toMatchObject([{ id: 'allowed-hosts', detail: 'Partners of billing' }])
    }
    expect(await find('zanzibar')).toEqual({})
    expect((await find('exfiltraton')).rule).toMatchObject([{ id: rule.id, title: 'Exfiltration', detail: 'observe' }])
    expect((await find('mial outside')).policy).toMatchObject([
      { id: policy.id, title: 'Mail outside', detail: 'observe' },
    ])
    for (const q of ['violation', 'biling', 'policy billing', 'policy_violation']) {
      expect((await find(q)).alert, q).toMatchObject([
        {
          id,
          instance_id: 'billing-1',
          title: 'billing-1: a policy violation, reported by another source',
          detail: 'critical, open',
        },
      ])
    }
    const { body } = await service.call<{ events: EventRow[] }>('GET', '/api/events?event_type=policy_violation')
    const { seq } = body.events[0]!
    for (const q of [id, id.slice(0, 8), id.slice(0, 20), ` ${id.toUpperCase()} `]) {
      expect(
        (await find(q)).event?.find((event) => event.id === id),
        q,
      ).toMatchObject({ seq, detail: 'critical' })
    }
    for (const q of [id.slice(0, 7), `${id.slice(0, 35)}${id.endsWith('0') ? '1' : '0'}`, 'ffffffff']) {
      expect((await find(q)).event, q).toBeUndefined()
    }
  })

  test('settings for operators, by name and meaning, without their value', async () => {
    const [viewer, operator] = [await service.createKey('viewer'), await service.createKey('operator')]
    expect((await find('alert_webhook_url', operator.key)).setting?.[0]).toMatchObject({ id: 'ALERT_WEBHOOK_URL' })
    expect((await find('retention', operator.key)).setting?.length).toBeGreaterThan(0)
    expect(await find('xylograph', operator.key)).toEqual({})
    expect(await find('alert_webhook_url', viewer.key)).toEqual({})
  })
})

test('at most `limit` hits of each kind are listed, 8 by default', async () => {
  for (let agent = 1; agent <= 12; agent++) await beat(`billing-${agent}`)
  expect((await find('billing')).agent?.map(({ id }) => id)).toEqual(
    [1, 2, 3, 4, 5, 6, 7, 8].map((agent) => `billing-${agent}`),
  )
  const { body } = await ask('billing', '&limit=2')
  expect(body.groups.map(({ hits }) => hits.length)).toEqual([2])
})

test('only readers may search', async () => {
  const agent = await service.createKey('agent')
  expect((await ask('billing', '', agent.key)).status).toBe(403)
  expect((await service.call('GET', '/api/search?q=billing', { key: null })).status).toBe(401)
})

test('an invalid search is refused with a sentence', async () => {
  expect((await service.call('GET', '/api/search')).status).toBe(400)
  for (const [q, more] of [
    ['x'.repeat(101), ''],
    ['billing\u0000', ''],
    ['billing', '&limit=0'],
    ['billing', '&limit=21'],
    ['billing', '&limit=many'],
  ] as const) {
    const { status, body } = await ask(q, more)
    expect([status, typeof body.error], q).toEqual([400, 'string'])
  }
})

// Both sides are free text of others: what a person pastes, and what an agent says its name is.
test('hostile texts are found as they are, and find nothing else', async () => {
  const name = '"><img src=x onerror=alert(1)>\u202Etxt.exe'
  await beat('hostile', name)
  expect((await find('onerror')).agent).toMatchObject([{ id: 'hostile', title: name }])
  for (const q of ['', ' ', '%', '_', '*', '__proto__', "' union all --", 'a'.repeat(100), '- - -']) {
    expect((await find(q)).agent, JSON.stringify(q)).toBeUndefined()
  }
})

// An event gets its id when it arrives and its time when it is committed, which is later in a flood.
test('an event that was stored seconds after its id was made is found', async () => {
  const { id } = await report({ severity: 'info' })
  const { db } = service.deps.database
  await db
    .updateTable('events')
    .set({ created_at: service.clock.now() + 2_000 })
    .where('id', '=', id)
    .execute()
  expect((await find(id)).event).toMatchObject([{ id }])
})

describe('a large fleet', () => {
  const fill = async (count: number, from = 0) => {
    const now = service.clock.now()
    const { db } = service.deps.database
    for (let first = from; first < from + count; first += 300) {
      const values = Array.from({ length: Math.min(300, from + count - first) }, (_, place) => ({
        ...{ id: `fleet-${first + place}`, name: `Named ${first + place}`, first_seen_at: now, last_heartbeat_at: now },
        ...{ liveness: 'online' as const, suspended: 0 as const, control_version: 0, typical_gap_ms: 0 },
        ...{ longest_gap_ms: 0, clone_count: 0 },
      }))
      await db
        .insertInto('instances')
        .values(values as never)
        .execute()
    }
  }
  const isComplete = async () => (await ask('')).body.complete
  const readAgain = () => service.clock.advance(20_000)

  test('is found by id and by words before its index is complete, and in spite of typos afterwards', async () => {
    await fill(3_000)
    const first = await ask('fleet-2999')
    expect(first.body).toMatchObject({ complete: false, groups: [{ kind: 'agent', hits: [{ id: 'fleet-2999' }] }] })
    service.clock.advance(600_000)
    service.services.search.forget()
    expect((await ask('named 2998')).body).toMatchObject({
      complete: false,
      groups: [{ hits: [{ id: 'fleet-2998' }] }],
    })
    await expect.poll(isComplete).toBe(true)
    expect((await find('flete 2997')).agent).toMatchObject([{ id: 'fleet-2997' }])
  })

  test('is found as it is now: new, renamed and deleted agents', async () => {
    await fill(1_600)
    await ask('fleet')
    await expect.poll(isComplete).toBe(true)
    await beat('fleet-7', 'Payroll')
    await beat('latecomer', 'Refunds')
    const { db } = service.deps.database
    await db.deleteFrom('instances').where('id', '=', 'fleet-8').execute()
    expect((await find('latecomer')).agent).toMatchObject([{ id: 'latecomer' }])
    expect(await find('nmaed 7')).not.toHaveProperty('agent.0.id', 'fleet-7')
    expect((await find('nmaed 8')).agent?.map(({ id }) => id)).not.toContain('fleet-8')
    readAgain()
    // This search gets the last reading and begins the next one.
    await find('payroll')
    await expect.poll(async () => (await find('payrol')).agent).toMatchObject([{ id: 'fleet-7', title: 'Payroll' }])
    await expect.poll(async () => (await find('refnds')).agent).toMatchObject([{ id: 'latecomer' }])
  })

  // Pages are kept by the range of their ids: a page that grew is split, and one that was emptied ends.
  test('is complete after many agents came and went', async () => {
    await fill(1_600)
    await ask('fleet')
    await expect.poll(isComplete).toBe(true)
    const { db } = service.deps.database
    await fill(8_400, 1_600)
    await db.deleteFrom('instances').where('id', '>=', 'fleet-3').where('id', '<', 'fleet-5').execute()
    readAgain()
    await find('fleet')
    await expect.poll(async () => (await find('nmaed 9999')).agent).toMatchObject([{ id: 'fleet-9999' }])
    for (const id of [0, 29, 299, 2_999, 5_000, 7_777]) {
      expect(
        (await find(`nmaed ${id}`)).agent?.map((hit) => hit.id),
        `${id}`,
      ).toContain(`fleet-${id}`)
    }
    expect(await find('nmaed 3500')).toEqual({})
  })
})
