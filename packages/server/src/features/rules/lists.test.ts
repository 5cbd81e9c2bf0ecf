import { type AllLists, type ListStored, type ListView, listLimits, type RuleBacktest } from '@wardline/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openRuleService, type RuleService } from '../../testing/rule-service.ts'

let service: RuleService
beforeAll(async () => {
  service = await openRuleService()
})
afterAll(() => service[Symbol.asyncDispose]())

type Answer<Body> = Body & { error: string }

const put = (name: string, entries: string[], version = 0, more: object = {}) =>
  service.call<Answer<ListStored>>('PUT', `/api/lists/${name}`, { body: { entries, version, ...more } })
const change = (name: string, body: object) =>
  service.call<Answer<ListStored>>('POST', `/api/lists/${name}/entries`, { body })
const view = async (name: string) => (await service.call<Answer<ListView>>('GET', `/api/lists/${name}`)).body
const remove = (name: string) => service.call<{ error: string }>('DELETE', `/api/lists/${name}`)

/** A rule that fires for hosts outside a list. */
const strangers = (list: string, more: object = {}) => ({
  title: `Not in ${list}`,
  severity: 'warning',
  detection: {
    call: { event_type: 'tool_call', 'metadata.hosts|exists': true },
    known: { 'metadata.hosts|domain|expand': `%${list}%` },
    condition: 'call and not known',
  },
  ...more,
})
const callOf = (host: string, instance_id = 'agent-a') => ({
  severity: 'info',
  source: 'test',
  event_type: 'tool_call',
  description: 'calls',
  instance_id,
  metadata: { hosts: [host] },
})
const create = (body: object) => service.call<{ id: string; error: string }>('POST', '/api/rules', { body })

it('are created, read, changed and deleted, each change with an audit entry that counts', async () => {
  const operator = await service.createKey('operator')
  const { body: made } = await service.call<ListStored>('PUT', '/api/lists/servers', {
    key: operator.key,
    body: { description: 'Ours', entries: ['a', 'b', 'a'], version: 0 },
  })
  expect(made).toEqual({ name: 'servers', version: 1, count: 2, added: 2, removed: 0 })
  expect((await change('servers', { add: ['c', 'b'], remove: ['a', 'x'] })).body).toEqual({
    name: 'servers',
    version: 2,
    count: 2,
    added: 1,
    removed: 1,
  })
  // What changes nothing makes no version.
  expect((await change('servers', { add: ['c'], remove: ['a'] })).body).toMatchObject({ version: 2, added: 0 })
  expect(await view('servers')).toMatchObject({ description: 'Ours', entries: ['b', 'c'], count: 2, rules: [] })
  expect((await put('servers', ['d'], 2, { description: 'New' })).body).toMatchObject({ version: 3, removed: 2 })
  expect((await remove('servers')).status).toBe(200)
  expect((await remove('servers')).status).toBe(404)
  const { body } = await service.call<{ entries: object[] }>('GET', '/api/audit?target=servers')
  expect(body.entries).toMatchObject([
    { action: 'list.create', actor: operator.id, before: null, after: { entries: 2, added: 2 } },
    { action: 'list.change', before: { entries: 2, version: 1 }, after: { entries: 2, added: 1, removed: 1 } },
    { action: 'list.change', after: { version: 3, description: 'New' } },
    { action: 'list.delete', before: { entries: 1 }, after: null },
  ])
  expect(JSON.stringify(body.entries)).not.toContain('"c"')
})

it('are read by viewers and changed by operators only', async () => {
  const viewer = await service.createKey('viewer')
  await put('for-viewers', ['a'])
  const as = (method: 'GET' | 'PUT' | 'POST' | 'DELETE', path: string, body?: object) =>
    service.call(method, path, body ? { key: viewer.key, body } : { key: viewer.key }).then(({ status }) => status)
  expect(await as('GET', '/api/lists')).toBe(200)
  expect(await as('GET', '/api/lists/for-viewers')).toBe(200)
  expect(await as('PUT', '/api/lists/for-viewers', { entries: [], version: 1 })).toBe(403)
  expect(await as('POST', '/api/lists/for-viewers/entries', { add: ['b'] })).toBe(403)
  expect(await as('DELETE', '/api/lists/for-viewers')).toBe(403)
})

it('a change applies to every event after the answer, in each rule that uses the list', async () => {
  await put('hosts', ['corp.example'])
  const [first, second] = [await service.create(strangers('hosts')), await service.create(strangers('HOSTS'))]
  const firings = async () => [(await service.firings(first)).length, (await service.firings(second)).length]
  await service.report(callOf('git.corp.example'), callOf('files.example'))
  await service.runRules()
  expect(await firings()).toEqual([1, 1])
  await change('hosts', { add: ['files.example'], remove: ['corp.example'] })
  await service.report(callOf('git.corp.example'), callOf('files.example'))
  await service.runRules()
  expect(await firings()).toEqual([2, 2])
  const newest = (await service.firings(first))[0]!
  expect(newest.version).toBe(1)
  const { body } = await service.call<AllLists>('GET', '/api/lists')
  expect(body.lists.find(({ name }) => name === 'hosts')).toMatchObject({
    count: 1,
    rules: [{ title: 'Not in HOSTS' }, { id: first, title: 'Not in hosts' }],
  })
})

it('other entries start the windows of a rule again, the same entries do not', async () => {
  await put('counted', ['a.example'], 0)
  const id = await service.create({
    title: 'Three calls',
    severity: 'warning',
    detection: { call: { 'metadata.hosts|expand': '%counted%' }, condition: 'call' },
    correlation: { type: 'event_count', 'group-by': ['instance_id'], timespan: '1h', condition: { gte: 3 } },
  })
  const call = async () => {
    await service.report(callOf('a.example', 'counter'))
    await service.runRules()
    return (await service.firings(id)).length
  }
  await call()
  await call()
  await put('counted', ['a.example'], 1, { description: 'Only described' })
  expect(await call()).toBe(1)
  await change('counted', { add: ['b.example'] })
  service.clock.advance(3_600_000)
  expect(await call()).toBe(1)
  expect(await call()).toBe(1)
  expect(await call()).toBe(2)
})

it('a rule that names an unknown list is refused with the command that creates it', async () => {
  const refused = await create(strangers('nowhere'))
  expect(refused.status).toBe(400)
  expect(refused.body.error).toMatch(
    /^Line \d+, column \d+: There is no list nowhere: `wardline lists create nowhere` creates it; /,
  )
  await put('nowhere', [])
  expect((await create(strangers('nowhere'))).status).toBe(201)
})

it('a list that rules use cannot be deleted, until they no longer use it', async () => {
  await put('used', ['x.example'])
  const { id } = (await create(strangers('used', { title: 'First' }))).body
  expect((await remove('used')).body.error).toBe('1 rule uses the list used: First. Change or delete them first.')
  await create(strangers('used', { title: 'Second' }))
  const refused = await remove('used')
  expect([refused.status, refused.body.error]).toEqual([
    409,
    '2 rules use the list used: First, Second. Change or delete them first.',
  ])
  await service.call('DELETE', `/api/rules/${id}`)
  expect((await remove('used')).status).toBe(409)
  const { body } = await service.call<{ rules: { id: string; title: string }[] }>('GET', '/api/rules')
  await service.call('DELETE', `/api/rules/${body.rules.find(({ title }) => title === 'Second')!.id}`)
  expect((await remove('used')).status).toBe(200)
})

it('an old version of a rule is shown although its list is gone', async () => {
  await put('gone', ['x.example'])
  const { id } = (await create(strangers('gone'))).body
  const plain = { event_type: 'tool_call' }
  await service.call('PUT', `/api/rules/${id}`, {
    body: { title: 'x', severity: 'info', detection: { a: plain, condition: 'a' } },
  })
  expect((await remove('gone')).status).toBe(200)
  const { status, body } = await service.call('GET', `/api/rules/${id}?version=1`)
  expect([status, body]).toMatchObject([200, { version: 1, document: strangers('gone'), lists: ['gone'] }])
})

it('of two people who replace a list the second one is refused, and both may add entries', async () => {
  await put('edited', ['a'])
  expect((await put('edited', ['a', 'b'], 1)).status).toBe(200)
  const late = await put('edited', ['a', 'c'], 1)
  expect([late.status, late.body.error]).toEqual([
    409,
    'The list edited has version 2, not 1: it was changed meanwhile, read it again.',
  ])
  expect((await put('edited', ['a'])).body.error).toBe('A list edited exists: send its version, 2, to replace it.')
  expect((await put('unknown', ['a'], 3)).status).toBe(404)
  const together = await Promise.all(['d', 'e', 'f', 'g'].map((entry) => change('edited', { add: [entry] })))
  expect(together.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  expect((await view('edited')).entries.toSorted()).toEqual(['a', 'b', 'd', 'e', 'f', 'g'])
  const replaced = await Promise.all([put('edited', ['x'], 6), put('edited', ['y'], 6)])
  expect(replaced.map(({ status }) => status).toSorted()).toEqual([200, 409])
})

it.each([
  [{ entries: ['a\nb'] }, /^entries\.0 must be one line of text without spaces at its ends\.$/],
  [{ entries: [' a'] }, /one line of text/],
  [{ entries: ['a '] }, /one line of text/],
  [{ entries: [''] }, /one line of text/],
  [{ entries: ['\u001b[2J'] }, /one line of text/],
  [{ entries: ['x'.repeat(301)] }, /^entries\.0 must have at most 300 characters\.$/],
  [{ entries: Array.from({ length: 3_001 }, (_, i) => `e${i}`) }, /^entries must have at most 3000 /],
  [{ entries: [1] }, /entries\.0 must be a string/],
  [{ entries: [], description: 'x'.repeat(501) }, /description must have at most 500/],
  [{ entries: [], version: -1 }, /version must be/],
  [{ entries: [], more: 1 }, /more is not a known field/],
])('refuse %j', async (body, sentence) => {
  const answer = await service.call<{ error: string }>('PUT', '/api/lists/refused', { body: { version: 0, ...body } })
  expect(answer.status).toBe(400)
  expect(answer.body.error).toMatch(sentence)
})

it('have names that fit between percent signs, and are at most 100 with 3,000 entries', async () => {
  for (const name of ['Upper', 'a%b', 'x'.repeat(65)]) expect((await put(name, [])).status).toBe(400)
  const full = Array.from({ length: listLimits.entries }, (_, index) =>
    String(index).padEnd(listLimits.entryLength, 'x'),
  )
  expect((await put('full', full)).body).toMatchObject({ count: 3_000 })
  expect((await view('full')).entries).toHaveLength(3_000)
  const more = await change('full', { add: ['one more'] })
  expect([more.status, more.body.error]).toEqual([400, 'A list has at most 3000 entries; this one would have 3001.'])
  const { body } = await service.call<AllLists>('GET', '/api/lists')
  for (let count = body.lists.length; count < listLimits.lists; count += 1) await put(`filler-${count}`, [])
  expect((await put('too-many', [])).body.error).toBe('There are 100 lists, the maximum: delete one first.')
  for (let count = body.lists.length; count < listLimits.lists; count += 1) await remove(`filler-${count}`)
})

// An entry that stops a rule from compiling would switch the rule off.
it('entries with which a rule could not run are refused with its name, and the rule runs on', async () => {
  await put('checked', ['ok.example'])
  const id = await service.create(strangers('checked', { title: 'Strict' }))
  const refused = await change('checked', { add: ['not/a/host'] })
  expect(refused.status).toBe(400)
  expect(refused.body.error).toMatch(/^The rule Strict uses the list and could not run with it: .*not not\/a\/host\.$/)
  await service.report(callOf('other.example'))
  await service.runRules()
  expect(await service.firings(id)).toHaveLength(1)
})

it('entries with which all rules together would cost an event too much are refused', async () => {
  await using on = await openRuleService()
  const send = (method: 'PUT' | 'POST', path: string, body: object) =>
    on.call<{ error: string }>(method, path, { body })
  for (const name of ['one', 'two', 'three']) {
    await send('PUT', `/api/lists/${name}`, { entries: ['x'], version: 0 })
    const detection = { a: { 'metadata.a|contains|expand': `%${name}%` }, condition: 'a' }
    await send('POST', '/api/rules', { title: name, severity: 'info', detection })
  }
  const entries = Array.from({ length: 1_480 }, (_, index) => `${index}-${index}`)
  expect((await send('POST', '/api/lists/one/entries', { add: entries })).status).toBe(200)
  expect((await send('POST', '/api/lists/two/entries', { add: entries })).status).toBe(200)
  const refused = await send('POST', '/api/lists/three/entries', { add: entries })
  expect(refused.status).toBe(400)
  expect(refused.body.error).toMatch(
    /^The rules that use the list would cost an event of 16 KiB up to 24\.\d ms, and the/,
  )
  // The sum knows what the entries of the others cost.
  expect((await send('POST', '/api/lists/three/entries', { add: entries.slice(0, 20) })).body.error).toBeUndefined()
  expect((await send('POST', '/api/lists/one/entries', { remove: entries })).status).toBe(200)
  expect((await send('POST', '/api/lists/three/entries', { add: entries })).status).toBe(200)
})

it('tests, backtests and explanations of rules use the lists', async () => {
  await put('tried', ['a.example'])
  const tests = {
    match: [[{ event_type: 'tool_call', metadata: { hosts: ['evil.example'] } }]],
    no_match: [[{ event_type: 'tool_call', metadata: { hosts: ['a.example'] } }]],
  }
  const rule = strangers('tried', { tests })
  const tested = await service.call('POST', '/api/rules/test', { body: { rule } })
  expect(tested.body).toMatchObject({ passed: 2, failed: [] })
  const { id } = (await create({ ...rule, title: 'Tried' })).body
  service.clock.advance(10_000)
  await service.report(callOf('a.example', 'tried-1'), callOf('b.example', 'tried-2'))
  service.clock.advance(1_000)
  const from = new Date(service.clock.now() - 1_001).toISOString()
  const backtest = async (body: object) =>
    (await service.call<RuleBacktest>('POST', '/api/rules/backtest', { body: { from, ...body } })).body.samples.map(
      ({ instance_id }) => instance_id,
    )
  expect(await backtest({ rule })).toEqual(['tried-2'])
  expect(await backtest({ id })).toEqual(['tried-2'])
  // A change of a list, before it is made.
  expect(await backtest({ rule, lists: { tried: ['b.example'] } })).toEqual(['tried-1'])
  expect(await backtest({ rule: strangers('unmade'), lists: { unmade: ['b.example'] } })).toEqual(['tried-1'])
})

it('explanations use the lists as they are, and explain the rest where an entry was added since', async () => {
  await put('explained', ['a.example'])
  const id = await service.create(strangers('explained'))
  await service.report(callOf('b.example', 'explained-1'))
  await service.runRules()
  const { body } = await service.call<{ events: { seq: number }[] }>('GET', '/api/events?instance_id=explained-1')
  const seq = body.events.at(-1)!.seq
  const matches = async () => {
    const path = `/api/rule-matches?event=${seq}&rule=${id}`
    const answer = await service.call<{ rules: { events: { matches: object[] }[] }[] }>('GET', path)
    return answer.body.rules[0]!.events[0]!.matches
  }
  const call = { selection: 'call', field: 'metadata.hosts', value: 'b.example' }
  expect(await matches()).toContainEqual(expect.objectContaining(call))
  await change('explained', { add: ['b.example'] })
  expect(await matches()).toContainEqual(expect.objectContaining(call))
})

it('exceptions are written into rules that use lists', async () => {
  await put('excepted', ['corp.example'])
  const { id } = (await create(strangers('excepted'))).body
  const draft = (body: object) =>
    service.call<{ text: string; error: string }>('POST', `/api/rules/${id}/exception`, { body })
  const exception = { who: { instances: ['agent-x'] }, reason: 'Migration', until: '2090-01-01' }
  const filter = { selection: 'call', fields: { 'metadata.hosts': 'files.example' } }
  for (const body of [{ exception }, { filter }]) {
    const drafted = await draft(body)
    expect(drafted.body.error).toBeUndefined()
    expect(drafted.body.text).toContain('%excepted%')
    const replaced = await service.call('PUT', `/api/rules/${id}`, { body: { rule: drafted.body.text } })
    expect(replaced.status).toBe(200)
  }
  const silent = callOf('files.example', 'excepted-1')
  await service.report(silent, callOf('other.example', 'agent-x'), callOf('other.example', 'excepted-1'))
  await service.runRules()
  expect((await service.firings(id)).map(({ instance_id }) => instance_id)).toEqual(['excepted-1'])
})

it('a rule that is switched on runs its tests with the list as it is', async () => {
  await put('switched', ['a.example'])
  const tests = {
    match: [[{ event_type: 'tool_call', metadata: { hosts: ['evil.example'] } }]],
    no_match: [[{ event_type: 'tool_call', metadata: { hosts: ['a.example'] } }]],
  }
  const { id } = (await create(strangers('switched', { tests }))).body
  const alert = () => service.call<{ error: string }>('POST', `/api/rules/${id}/mode`, { body: { mode: 'alert' } })
  await change('switched', { remove: ['a.example'] })
  expect((await alert()).body.error).toMatch(/Case 1 of tests\.no_match fired/)
  await change('switched', { add: ['a.example'] })
  expect((await alert()).status).toBe(200)
})

// An allow list is a part of a rule: who extends it can switch the rule off for a host.
it('a change of a list that rules alert by is an alert, that of another list is none', async () => {
  await put('watched', ['a.example'])
  const tests = {
    match: [[{ event_type: 'tool_call', metadata: { hosts: ['evil.example'] } }]],
    no_match: [[{ event_type: 'tool_call', metadata: { hosts: ['a.example'] } }]],
  }
  const { id } = (await create(strangers('watched', { tests }))).body
  const rows = () =>
    service.rows<{ description: string }>("select * from alerts where event_type = 'protection_changed' order by seq")
  const count = (await rows()).length
  await change('watched', { add: ['b.example'] })
  expect(await rows()).toHaveLength(count)
  await service.call('POST', `/api/rules/${id}/mode`, { body: { mode: 'alert' } })
  await change('watched', { add: ['c.example'] })
  const found = await rows()
  expect(found).toHaveLength(count + 1)
  expect(JSON.stringify(found.at(-1))).toContain('changed the list watched, which rules that alert or enforce use')
  expect(JSON.stringify(found.at(-1))).not.toContain('c.example')
})
