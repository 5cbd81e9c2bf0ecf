import type { RuleList, RuleStored, RuleTested, RuleView } from '@wardline/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())

type Answer<Body> = Body & { error: string; faults?: { line: number; column: number; sentence: string }[] }

const document = (more: object = {}) => ({
  title: 'Shell',
  severity: 'warning',
  detection: { shell: { event_type: 'tool_call', tool: 'shell-exec' }, condition: 'shell' },
  ...more,
})
const tests = {
  match: [[{ event_type: 'tool_call', metadata: { tool: 'shell-exec' } }]],
  no_match: [[{ event_type: 'tool_call', metadata: { tool: 'file-read' } }]],
}
const yaml = `# Found in every incident so far
title: Shell
severity: warning
detection:
  shell:
    event_type: tool_call
    tool: shell-exec
  condition: shell
`

const create = (body: unknown, key?: string) =>
  service.call<Answer<RuleStored>>('POST', '/api/rules', key === undefined ? { body } : { body, key })
const view = async (id: string, query = '') => (await service.call<RuleView>('GET', `/api/rules/${id}${query}`)).body

it('are stored as JSON, as YAML, and as text in JSON', async () => {
  const json = await create(document())
  expect(json).toMatchObject({ status: 201, body: { version: 1, mode: 'observe' } })
  expect(await view(json.body.id)).toMatchObject({ format: 'json', document: document(), file: null, firings_24h: 0 })
  const sent = await service.call<RuleStored>('POST', '/api/rules', {
    body: yaml,
    headers: { 'content-type': 'application/yaml' },
  })
  expect(sent.status).toBe(201)
  expect(await view(sent.body.id)).toMatchObject({ format: 'yaml', text: yaml, document: document() })
  const wrapped = await create({ rule: yaml })
  expect(await view(wrapped.body.id)).toMatchObject({ text: yaml })
  const { body } = await service.call<RuleList>('GET', '/api/rules')
  expect(body.rules.map(({ id }) => id).sort()).toEqual([json, sent, wrapped].map((each) => each.body.id).sort())
})

it('keep every version, and change their mode without a new version', async () => {
  const { id } = (await create(document({ tests }))).body
  const put = (body: object) => service.call<Answer<RuleStored>>('PUT', `/api/rules/${id}`, { body })
  const mode = (value: string) =>
    service.call<Answer<RuleStored>>('POST', `/api/rules/${id}/mode`, { body: { mode: value } })
  expect((await mode('enforce')).body).toEqual({ id, version: 1, mode: 'enforce' })
  expect((await put(document({ tests, title: 'Shell of any kind' }))).body).toEqual({ id, version: 2, mode: 'enforce' })
  expect((await put(document({ tests, title: 'Shell of any kind' }))).body).toMatchObject({ version: 2 })
  expect((await mode('observe')).body).toEqual({ id, version: 2, mode: 'observe' })
  expect(await view(id)).toMatchObject({ version: 2, document: { mode: 'observe', title: 'Shell of any kind' } })
  expect(await view(id, '?version=1')).toMatchObject({ version: 1, document: { title: 'Shell' } })
  expect((await service.call('GET', `/api/rules/${id}?version=3`)).status).toBe(404)
  expect((await put(document({ id: '00000000-0000-7000-8000-000000000001' }))).body.error).toMatch(
    /^Line 11, column 3: id is /,
  )
  const { body } = await service.call<{ entries: object[] }>('GET', `/api/audit?target=${id}`)
  expect(body.entries).toMatchObject([
    { action: 'rule.create', after: { version: 1, mode: 'observe' } },
    { action: 'rule.mode', before: { mode: 'observe' }, after: { mode: 'enforce' } },
    { action: 'rule.change', after: { version: 2, changed: ['title'] } },
    { action: 'rule.change' },
    { action: 'rule.mode', after: { mode: 'observe' } },
  ])
})

it('are listed with the responses of their current text', async () => {
  const { id } = (await create(document({ response: [{ action: 'suspend' }] }))).body
  await service.call('PUT', `/api/rules/${id}`, { body: document() })
  const { body } = await service.call<RuleList>('GET', '/api/rules')
  expect(body.rules.find((rule) => rule.id === id)).toMatchObject({ version: 2, responses: [] })
})

it('continue their version numbers when they are deleted and created again', async () => {
  const id = '00000000-0000-7000-8000-000000000002'
  expect((await create(document({ id }))).body).toEqual({ id, version: 1, mode: 'observe' })
  expect((await create(document({ id }))).status).toBe(409)
  expect((await service.call('DELETE', `/api/rules/${id}`)).status).toBe(200)
  for (const path of ['', '/firings']) expect((await service.call('GET', `/api/rules/${id}${path}`)).status).toBe(404)
  expect((await service.call('DELETE', `/api/rules/${id}`)).status).toBe(404)
  expect((await create(document({ id }))).body).toMatchObject({ version: 2 })
})

it('are changed by operators only, and are readable for viewers', async () => {
  const [viewer, operator] = [await service.createKey('viewer'), await service.createKey('operator')]
  expect((await create(document(), viewer.key)).status).toBe(403)
  const { id } = (await create(document(), operator.key)).body
  const read = await service.call<RuleView>('GET', `/api/rules/${id}`, { key: viewer.key })
  expect(read.body).toMatchObject({ changed_by: 'operator of a test' })
  expect((await service.call('DELETE', `/api/rules/${id}`, { key: viewer.key })).status).toBe(403)
})

it.each([
  [document({ severity: 'loud' }), /^Line 3, column \d+: .*severity/],
  [{ rule: yaml.replace('tool:', 'tool|like:') }, /^Line 7, column \d+: .*like/],
  [{ rule: yaml.replace('condition: shell', 'condition: shell and') }, /^Line 8, column \d+: /],
  [{ rule: 'title: [' }, /^Line 1, column \d+: /],
  [{ rule: ' ' }, /empty/],
  [{ rule: `${yaml}---\n${yaml}` }, /The text has several rules/],
  [{ rule: 'x'.repeat(65 * 1024) }, /64 KiB/],
  [document({ mode: 'alert' }), /no tests: mode alert needs/],
  [document({ tests: { ...tests, no_match: tests.match } }), /Case 1 of tests\.no_match fired at event 1 but must not/],
])('refuse %j with the reason', async (body, sentence) => {
  const answer = await create(body)
  expect(answer.status).toBe(400)
  expect(answer.body.error).toMatch(sentence)
})

it('return all faults with their lines', async () => {
  const rule = yaml.replace('tool:', 'tool|like:').replace('condition: shell', 'condition: shell and other')
  const { status, body } = await service.call<Answer<RuleTested>>('POST', '/api/rules/test', { body: { rule } })
  expect(status).toBe(400)
  expect(body.error).toMatch(/ \(and 1 more\)$/)
  expect(body.faults).toMatchObject([{ line: 7 }, { line: 8 }])
})

it('run their tests on request without being stored', async () => {
  const call = async (rule: object) =>
    (await service.call<RuleTested>('POST', '/api/rules/test', { body: { rule } })).body
  expect(await call(document({ tests }))).toEqual({ title: 'Shell', passed: 2, failed: [], notes: [] })
  expect(await call(document({ tests: { ...tests, match: tests.no_match } }))).toMatchObject({
    passed: 1,
    failed: [{ sentence: expect.stringContaining('did not fire but must') }],
  })
})

it('say of a failed test that learning suppressed it, and only then', async () => {
  const learning = (match: object[], more: object = {}) =>
    service
      .call<RuleTested>('POST', '/api/rules/test', {
        body: {
          rule: {
            title: 'New tool',
            severity: 'info',
            detection: { call: { event_type: 'tool_call' }, condition: 'call' },
            correlation: { type: 'new_value', field: 'tool', 'group-by': ['instance_id'], timespan: '30d' },
            tests: { match: [match], no_match: [[{ event_type: 'x' }]] },
            ...more,
          },
        },
      })
      .then(({ body }) => body.failed[0]?.sentence)
  const call = (tool: string, after = '1h') => ({ after, event_type: 'tool_call', metadata: { tool } })
  expect(await learning([call('a'), call('b')])).toMatch(/must: .*\. learning suppressed it: .*default: 1d/)
  expect(await learning([call('a')])).toMatch(/\. No value is new in the first event of a group/)
  expect(await learning([call('a'), call('a', '2d')])).not.toMatch(/learning/)
  expect(await learning([call('a'), call('b', '2d')])).toBeUndefined()
  const nested = {
    correlation: {
      type: 'temporal',
      timespan: '1h',
      'group-by': ['instance_id'],
      rules: [
        'call',
        {
          correlation: {
            type: 'new_value',
            field: 'tool',
            'group-by': ['instance_id'],
            timespan: '30d',
            rules: ['call'],
          },
        },
      ],
    },
  }
  expect(await learning([call('a'), call('b')], nested)).toMatch(/learning suppressed it/)
})

it('are refused when all rules together would cost an event too much', async () => {
  await using on = await openTestService()
  const store = (id: string | undefined, values: number) =>
    on.call<Answer<RuleStored>>(id === undefined ? 'POST' : 'PUT', `/api/rules${id === undefined ? '' : `/${id}`}`, {
      body: document({
        detection: {
          a: { 'metadata.a|contains': Array.from({ length: values }, (_, value) => `${value}-${values}`) },
          condition: 'a',
        },
      }),
    })
  const stored = []
  for (let index = 0; index < 6; index += 1) stored.push((await store(undefined, 480 + index)).body.id)
  const refused = await store(undefined, 300)
  expect(refused.status).toBe(400)
  expect(refused.body.error).toMatch(
    /^The rule costs an event of 16 KiB up to 4\.9 ms, and the other rules 47\.4 ms: all rules together may cost at most 50 ms\. Use fewer /,
  )
  expect((await store(undefined, 100)).status).toBe(201)
  expect((await store(stored[0], 500)).status).toBe(200)
  expect((await store(stored[1], 500)).status).toBe(200)
  expect((await store(stored[2], 500)).status).toBe(400)
  // A rule that costs less is stored in any case.
  await on.execute('update rules set cost = 10 * cost')
  expect((await store(stored[3], 400)).status).toBe(200)
  expect((await store(stored[3], 410)).status).toBe(400)
  expect((await create(document({ cooldown: '0s' }))).status).toBe(201)
  expect((await create(document({ cooldown: '0m' }))).status).toBe(400)
})

it('are sent as YAML, which the views API refuses with 415', async () => {
  const headers = { 'content-type': 'application/yaml' }
  expect((await service.call('POST', '/api/views', { body: 'name: x', headers })).status).toBe(415)
})
