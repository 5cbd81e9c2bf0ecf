import {
  type PolicyLinted,
  type PolicyList,
  type PolicyStored,
  type PolicyView,
  storedPolicyLimits,
} from '@wardline/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())

type Answer<Body> = Body & { error: string; faults?: { line: number; column: number; sentence: string }[] }

const document = (more: object = {}) => ({
  title: 'Volumes',
  rules: [
    {
      title: 'Volumes are never deleted',
      decision: 'deny',
      match: { tool: 'volume_delete' },
      cases: { match: [{ tool: 'volume_delete' }], no_match: [{ tool: 'volume_list' }] },
    },
  ],
  ...more,
})
const yaml = `# Since the incident of May
title: Mail
rules:
  - title: Mail outside the company
    decision: ask
    match: { tool: send_email }
    when: { 'recipients|not_host': [example.com] }
flow: default
labels: office
`

const create = (body: unknown, key?: string) =>
  service.call<Answer<PolicyStored>>('POST', '/api/policies', key === undefined ? { body } : { body, key })
const view = async (id: string, query = '') =>
  (await service.call<PolicyView>('GET', `/api/policies/${id}${query}`)).body
const list = async () => (await service.call<PolicyList>('GET', '/api/policies')).body
const faultsOf = async (body: unknown) => {
  const answer = await create(body)
  expect(answer.status).toBe(400)
  return answer.body
}

it('are stored as JSON, as YAML, and as text in JSON', async () => {
  const json = await create(document())
  expect(json).toMatchObject({ status: 201, body: { version: 1, mode: 'observe' } })
  expect(json.body.set_version).toBeGreaterThan(0)
  expect(await view(json.body.id)).toMatchObject({ format: 'json', document: document(), file: null, flow: 'off' })
  const sent = await service.call<PolicyStored>('POST', '/api/policies', {
    body: yaml,
    headers: { 'content-type': 'application/yaml' },
  })
  expect(sent.status).toBe(201)
  expect(await view(sent.body.id)).toMatchObject({
    format: 'yaml',
    text: yaml,
    document: { title: 'Mail', labels: 'office' },
    rules: [{ title: 'Mail outside the company', decision: 'ask' }],
    flow: 'default',
  })
  const wrapped = await create({ policy: yaml })
  expect(await view(wrapped.body.id)).toMatchObject({ text: yaml })
  expect((await list()).policies.map(({ id }) => id).sort()).toEqual(
    [json, sent, wrapped].map(({ body }) => body.id).sort(),
  )
})

it('keep every version, and change their mode without a new version', async () => {
  const { id } = (await create(document())).body
  const put = (body: object) => service.call<Answer<PolicyStored>>('PUT', `/api/policies/${id}`, { body })
  const mode = (value: string) =>
    service.call<Answer<PolicyStored>>('PUT', `/api/policies/${id}/mode`, { body: { mode: value } })
  const enforced = await mode('enforce')
  expect(enforced.body).toMatchObject({ id, version: 1, mode: 'enforce' })
  const changed = await put(document({ title: 'Volumes of any kind' }))
  expect(changed.body).toMatchObject({ version: 2, mode: 'enforce' })
  expect(changed.body.set_version).toBeGreaterThan(enforced.body.set_version)
  // The same again changes nothing.
  expect((await put(document({ title: 'Volumes of any kind' }))).body).toEqual(changed.body)
  expect((await mode('observe')).body).toMatchObject({ version: 2, mode: 'observe' })
  expect(await view(id)).toMatchObject({ version: 2, document: { mode: 'observe', title: 'Volumes of any kind' } })
  expect(await view(id, '?version=1')).toMatchObject({ version: 1, document: { title: 'Volumes' } })
  expect((await service.call('GET', `/api/policies/${id}?version=3`)).status).toBe(404)
  expect((await mode('alert')).body.error).toBe('mode must be observe, or enforce.')
  const { body } = await service.call<{ entries: object[] }>('GET', `/api/audit?target=${id}`)
  expect(body.entries).toMatchObject([
    { action: 'policy.create', after: { version: 1, mode: 'observe' } },
    { action: 'policy.mode', before: { mode: 'observe' }, after: { mode: 'enforce' } },
    { action: 'policy.change', after: { version: 2, changed: ['title'] } },
    { action: 'policy.mode', after: { mode: 'observe' } },
  ])
})

it('name the place of each fault, in YAML and in JSON', async () => {
  const { error, faults } = await faultsOf({
    policy: yaml.replace('decision: ask', 'decision: perhaps').replace('flow: default', 'flow: sometimes'),
  })
  expect(error).toBe('Line 5, column 5: rules[0].decision must be allow, ask or deny. (and 1 more)')
  expect(faults).toEqual([
    { line: 5, column: 5, sentence: 'rules[0].decision must be allow, ask or deny.' },
    { line: 8, column: 1, sentence: 'flow must be off, default or strict.' },
  ])
  expect(
    (await faultsOf(document({ rules: [{ title: 'One', decision: 'deny', when: { 'a.b|near': 1 } }] }))).error,
  ).toMatch(/^Line 8, column 9: rules\[0\]\.when\.a\.b\|near must be an argument and one of /)
  expect((await faultsOf({ policy: 'title: [' })).error).toMatch(/^Line 1, column \d+: This is not valid YAML/)
  expect((await faultsOf({ policy: 'just a text' })).error).toBe(
    'Line 1, column 1: The document must be a map of names and values. (and 1 more)',
  )
  expect((await faultsOf({ policy: `${yaml}---\n${yaml}` })).error).toMatch(/^Line 12, column 1: The text has a second/)
  expect((await faultsOf({ policy: ' ' })).error).toBe('The policy is empty: send a document in YAML or JSON.')
})

it('are refused when a case fails, a rule can never decide, or its tool has no such argument', async () => {
  const failing = document({
    rules: [{ title: 'One', decision: 'deny', match: { tool: 'a' }, cases: { match: [{ tool: 'b' }] } }],
  })
  expect((await faultsOf(failing)).error).toMatch(
    /^Line \d+, column \d+: rules\[0\]\.cases\.match\[0\] is a call that does not match the rule\.$/,
  )
  const shadowed = document({
    rules: [
      { title: 'All', decision: 'deny' },
      { title: 'Some', decision: 'ask', match: { tool: 'a' } },
    ],
  })
  expect((await faultsOf(shadowed)).error).toContain('rules[1] never decides: the rule "All" matches the same calls')
  const tools = [{ name: 'send_email', inputSchema: { type: 'object', properties: { to: {}, body: {} } } }]
  expect((await faultsOf({ policy: yaml, tools })).error).toBe(
    'Line 7, column 13: rules[0].when.recipients|not_host is no argument of the tool send_email: it has to, body.',
  )
  expect((await faultsOf({ policy: yaml, tools: [{}] })).error).toBe('tools.0.name is required.')
})

it('are linted with the same sentences, without being stored', async () => {
  const before = await list()
  const lint = async (body: object) => (await service.call<PolicyLinted>('POST', '/api/policies/lint', { body })).body
  expect(await lint({ policy: yaml })).toEqual({ title: 'Mail', rules: 1, faults: [] })
  expect(await lint({ policy: yaml.replace('ask', 'perhaps') })).toEqual({
    title: null,
    rules: 0,
    faults: [{ line: 5, column: 5, sentence: 'rules[0].decision must be allow, ask or deny.' }],
  })
  expect(await list()).toEqual(before)
})

it('are changed by operators alone', async () => {
  const { id } = (await create(document())).body
  for (const scope of ['viewer', 'agent'] as const) {
    const { key } = await service.createKey(scope)
    expect((await create(document(), key)).status).toBe(403)
    for (const [method, url, body] of [
      ['PUT', `/api/policies/${id}`, document()],
      ['PUT', `/api/policies/${id}/mode`, { mode: 'enforce' }],
      ['POST', '/api/policies/lint', { policy: yaml }],
      ['DELETE', `/api/policies/${id}`, undefined],
    ] as const) {
      const answer = await service.call(method, url, body === undefined ? { key } : { body, key })
      expect([method, url, answer.status]).toEqual([method, url, 403])
    }
    expect((await service.call('GET', '/api/policies', { key })).status).toBe(scope === 'viewer' ? 200 : 403)
    expect((await service.call('GET', `/api/policies/${id}`, { key })).status).toBe(scope === 'viewer' ? 200 : 403)
  }
  const { key } = await service.createKey('operator')
  expect((await create(document(), key)).status).toBe(201)
})

it('are deleted, and their versions are kept', async () => {
  const { id, set_version } = (await create(document())).body
  expect((await service.call('DELETE', `/api/policies/${id}`)).body).toEqual({ ok: true })
  expect((await list()).set_version).toBeGreaterThan(set_version)
  expect((await service.call('DELETE', `/api/policies/${id}`)).status).toBe(404)
  expect((await service.call<{ error: string }>('GET', `/api/policies/${id}`)).body.error).toContain(id)
  const { db } = service.deps.database
  expect(await db.selectFrom('policy_versions').select('version').where('policy_id', '=', id).execute()).toHaveLength(1)
})

it('are changed by one of two operators at once', async () => {
  const { id } = (await create(document())).body
  const put = (title: string) =>
    service.call<Answer<PolicyStored>>('PUT', `/api/policies/${id}`, { body: document({ title }) })
  const answers = await Promise.all([put('One'), put('Two'), put('Three')])
  const stored = answers.filter(({ status }) => status === 200)
  expect(stored.length).toBeGreaterThan(0)
  for (const { status, body } of answers) {
    if (status !== 200) expect([status, body.error]).toEqual([409, 'The policy was changed meanwhile: read it again.'])
  }
  const { version, versions } = await view(id)
  expect(version).toBe(1 + stored.length)
  expect(versions).toHaveLength(version)
})

it('report a change that reduces protection', async () => {
  const { id } = (await create(document({ mode: 'enforce' }))).body
  await service.call('PUT', `/api/policies/${id}`, { body: document({ rules: [] }) })
  await service.call('PUT', `/api/policies/${id}/mode`, { body: { mode: 'observe' } })
  await service.call('DELETE', `/api/policies/${id}`)
  const { body } = await service.call<{ alerts: { description: string; severity: string }[] }>('GET', '/api/alerts')
  const texts = body.alerts.filter(({ description }) => description.includes(id))
  expect(texts.map(({ severity }) => severity)).toEqual(['warning', 'critical', 'critical'])
  expect(texts.at(-1)!.description).toContain(`replaced the policy ${id}, which is in mode enforce (changed: rules)`)
})

it('refuse hostile bodies without failing', async () => {
  const texts = [
    '[',
    'a: &a [*a, *a]\ntitle: *a',
    '!!js/function x',
    '- '.repeat(2_000),
    '['.repeat(10_000),
    '{"title": "x", "rules": {"__proto__": {"length": 1e9}}}',
    'title: x\nrules: [{ title: t, decision: deny, match: { tool: "((" } }]',
    'title: x\nlabels: { __proto__: { is: [sends] } }\nrules: 7',
    `title: ${'x'.repeat(100_000)}`,
    '\0',
    'title: x\nfor: { tags: [[[]]] }',
  ]
  for (const policy of texts) {
    const answer = await create({ policy })
    expect([policy.slice(0, 40), answer.status]).toEqual([policy.slice(0, 40), 400])
    expect(answer.body.error.length).toBeLessThan(1_000)
  }
  for (const body of [[], 'x', {}, { policy: 7 }, { policy: yaml, extra: 1 }, { policy: yaml, tools: {} }]) {
    expect([body, (await create(body)).status]).toEqual([body, 400])
  }
})

it('are bounded in number and together', async () => {
  const { db } = service.deps.database
  await db.deleteFrom('policies').execute()
  const large = { title: 'Large', labels: Object.fromEntries(Array.from({ length: 900 }, (_, n) => [`tool-${n}`, {}])) }
  const { id } = (await create(large)).body
  await db
    .updateTable('policies')
    .set({ bytes: storedPolicyLimits.setBytes - 100 })
    .execute()
  expect((await faultsOf(document())).error).toMatch(/^All policies together have \d+ bytes with their labels/)
  // A policy that is not larger than before can always be stored.
  expect((await service.call('PUT', `/api/policies/${id}`, { body: document() })).status).toBe(200)
  const { bytes } = await db.selectFrom('policies').select('bytes').executeTakeFirstOrThrow()
  expect(bytes).toBeLessThan(500)
  const row = await db.selectFrom('policies').selectAll().executeTakeFirstOrThrow()
  const others = Array.from({ length: storedPolicyLimits.policies - 1 }, (_, n) => ({ ...row, id: `other-${n}` }))
  await db.insertInto('policies').values(others).execute()
  expect((await faultsOf(document())).error).toBe('There are 100 policies, the maximum: delete one first.')
  await db.deleteFrom('policies').execute()
})
