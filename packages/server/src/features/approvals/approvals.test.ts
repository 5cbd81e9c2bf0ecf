import { randomUUID } from 'node:crypto'
import type {
  Allowance,
  Approval,
  ApprovalAnswer,
  ApprovalList,
  AuditEntry,
  EventRow,
  NewApproval,
} from '@wardline/contract'
import { approvalLimits, eventTypes } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { dayMs, hourMs, minuteMs } from '../../clock.ts'
import { adminKey, openTestService, type TestService } from '../../testing/service.ts'
import { indexEvents } from '../events/event-index.ts'
import { forgetOldEvents } from '../events/retention.ts'
import type { AllowanceRow } from './approval-rules.ts'
import { forgetApprovals } from './approvals.ts'
import { closeExpired } from './decisions.ts'
import { changeAllowance } from './queries.ts'
import { requestApproval } from './requests.ts'

const policy = '01980000-0000-7000-8000-00000000a001'
const hashOf = (digit: string) => digit.repeat(64)

let service: TestService
let agent: string
let operator: { id: string; key: string }
let second: { id: string; key: string }
beforeEach(async () => {
  service = await openTestService()
  for (const id of ['agent-1', 'agent-2']) {
    await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
  }
  ;({ key: agent } = await service.createKey('agent', ['agent-1']))
  operator = await service.createKey('operator')
  second = await service.createKey('operator')
})
afterEach(() => service[Symbol.asyncDispose]())

type Answered = ApprovalAnswer & { error: string }
const call = (more: object = {}) => ({
  attempt: randomUUID(),
  session_id: 'session-1',
  tool: 'send_email',
  args_sha256: hashOf('a'),
  args: '{"to":"a@example.com"}',
  policy_id: policy,
  policy_version: 3,
  rule: 'Mail outside the company',
  approvals: 1,
  wait_seconds: 600,
  ...more,
})
const ask = (body: object, key = agent, id = 'agent-1') =>
  service.call<Answered>('POST', `/api/instances/${id}/approvals`, { key, body })
const stateOf = async (body: object) => (await ask(body)).body.state
const decide = (id: string, body: object, key = operator.key) =>
  service.call<Approval & { error: string }>('POST', `/api/approvals/${id}`, { key, body })
const approve = (id: string, more: object = {}, key?: string) => decide(id, { decision: 'approve', ...more }, key)
const get = async (id: string) => (await service.call<Approval>('GET', `/api/approvals/${id}`)).body
const list = async (query = '') => (await service.call<ApprovalList>('GET', `/api/approvals${query}`)).body
const allowances = async () =>
  (await service.call<{ allowances: Allowance[] }>('GET', '/api/allowances')).body.allowances
const events = async (type: string) =>
  (await service.call<{ events: EventRow[] }>('GET', `/api/events?event_type=${type}`)).body.events
const openAlerts = () =>
  service.rows<{ id: string }>(
    `select id from alerts where status = 'open' and event_type = '${eventTypes.approvalRequested}' order by seq`,
  )

describe('a call that asks', () => {
  it('waits, and is granted to its attempt once an operator approved it', async () => {
    const one = call()
    const { status, body } = await ask(one)
    expect([status, body.state, body.reason]).toEqual([200, 'pending', null])
    expect(Date.parse(body.expires_at)).toBe(service.clock.now() + 10 * minuteMs)
    expect(await stateOf(one)).toBe('pending')
    expect(await get(body.id)).toMatchObject({
      ...{ state: 'pending', instance_id: 'agent-1', tool: 'send_email', args: '{"to":"a@example.com"}', asked: 1 },
      ...{ rule: 'Mail outside the company', approvals: 1, approved_by: [], own: false },
    })
    const decided = await approve(body.id, { reason: 'known recipient' })
    expect([decided.status, decided.body.state]).toEqual([200, 'approved'])
    expect(decided.body).toMatchObject({ approved_by: [{ by: operator.id }], own: true, reason: 'known recipient' })
    expect((await ask(one)).body).toMatchObject({ id: body.id, state: 'granted', reason: 'known recipient' })
    expect((await get(body.id)).state).toBe('granted')
  })

  it('gets a lost answer again, and its approval serves no other call', async () => {
    const one = call()
    const { id } = (await ask(one)).body
    await approve(id)
    expect([await stateOf(one), await stateOf(one)]).toEqual(['granted', 'granted'])
    const again = (await ask(call())).body
    expect([again.state, again.id === id]).toEqual(['pending', false])
    service.clock.advance(11 * minuteMs)
    expect(await stateOf(one)).toBe('expired')
  })

  it('is one request with identical calls, of which the first one that asks again takes it', async () => {
    const [one, other] = [call(), call()]
    const { id } = (await ask(one)).body
    expect((await ask(other)).body.id).toBe(id)
    expect((await get(id)).asked).toBe(2)
    expect(await events(eventTypes.approvalRequested)).toHaveLength(1)
    await approve(id)
    expect(await stateOf(other)).toBe('granted')
    // The call that came too late asks again, as a new request.
    const late = (await ask(one)).body
    expect([late.state, late.id === id]).toEqual(['pending', false])
    expect((await ask(one)).body.id).toBe(late.id)
  })

  it.each([
    ['another session', { session_id: 'session-2' }],
    ['no session', { session_id: undefined }],
    ['another tool', { tool: 'delete_mail' }],
    ['other arguments', { args_sha256: hashOf('b') }],
  ])('with %s is another request, which the approval does not cover', async (_, more) => {
    const { id } = (await ask(call())).body
    await approve(id)
    const { body } = await ask(call(more))
    expect([body.state, body.id === id]).toEqual(['pending', false])
  })

  it('may not use the attempt of another call', async () => {
    const one = call()
    const { id } = (await ask(one)).body
    await approve(id)
    for (const more of [{ tool: 'x' }, { session_id: 'other' }, { args_sha256: hashOf('b') }]) {
      const { status, body } = await ask({ ...one, ...more })
      expect([status, body.error]).toEqual([409, 'attempt belongs to another call: give each call its own UUID.'])
    }
    expect(await stateOf(one)).toBe('granted')
  })

  it('may not use one attempt for two calls at the same time', async () => {
    const { attempt } = call()
    const calls = ['a', 'b', 'c', 'd'].map((digit) => ask(call({ attempt, args_sha256: hashOf(digit) })))
    const answers = (await Promise.all(calls)).map(({ status, body }) => [status, body.state])
    expect(answers.toSorted()).toEqual([
      [200, 'pending'],
      [409, undefined],
      [409, undefined],
      [409, undefined],
    ])
  })

  it('is denied for all its attempts, and for later ones within the wait', async () => {
    const one = call()
    const { id } = (await ask(one)).body
    await ask(call())
    expect((await decide(id, { decision: 'deny', reason: 'wrong recipient' })).body).toMatchObject({
      state: 'denied',
      denied_by: { by: operator.id },
    })
    expect((await ask(one)).body).toMatchObject({ state: 'denied', reason: 'wrong recipient' })
    const later = call()
    expect((await ask(later)).body).toMatchObject({ id, state: 'denied' })
    service.clock.advance(10 * minuteMs)
    expect(await stateOf(one)).toBe('denied')
    expect(await stateOf(later)).toBe('pending')
  })

  it('expires by the clock, before and after the job closed it, and when it is not taken in time', async () => {
    const [one, other] = [call(), call({ args_sha256: hashOf('b') })]
    const { id } = (await ask(one)).body
    const { id: approved } = (await ask(other)).body
    service.clock.advance(9 * minuteMs)
    await approve(approved)
    service.clock.advance(minuteMs)
    expect([await stateOf(one), (await get(id)).state]).toEqual(['expired', 'expired'])
    expect((await approve(id)).body.error).toContain('expired')
    await closeExpired(service.deps, service.services)
    expect([await stateOf(one), await stateOf(other)]).toEqual(['expired', 'granted'])
    expect((await events(eventTypes.approvalDecided)).map(({ metadata }) => metadata?.decision)).toEqual([
      'expired',
      'approved',
    ])
    const third = call({ args_sha256: hashOf('c') })
    const { id: untaken } = (await ask(third)).body
    await approve(untaken)
    service.clock.advance(approvalLimits.takeMinutes * minuteMs)
    await closeExpired(service.deps, service.services)
    expect([await stateOf(third), (await get(untaken)).state]).toEqual(['expired', 'expired'])
  })

  it('of a suspended agent is neither stored nor granted', async () => {
    const one = call()
    const { id } = (await ask(one)).body
    await approve(id)
    await service.call('POST', '/api/kill/agent-1', { body: { reason: 'acts strangely' } })
    for (const body of [one, call({ args_sha256: hashOf('b') })]) {
      const answer = await ask(body)
      expect([answer.status, answer.body.error]).toEqual([
        409,
        'The agent is suspended: nothing is granted before it is resumed.',
      ])
    }
    expect((await list()).approvals).toHaveLength(1)
    await service.call('POST', '/api/resume/agent-1')
    expect(await stateOf(one)).toBe('granted')
  })

  it('is not granted if the agent is suspended between the check and the commit', async () => {
    const one = call()
    await approve((await ask(one)).body.id)
    const { deps, services } = service
    const kill = () => service.call('POST', '/api/kill/agent-1', { body: { reason: 'just in time' } })
    const batch: typeof deps.database.batch = async (statements, options) => {
      await kill()
      return deps.database.batch(statements, options)
    }
    const slow = { ...deps, database: { ...deps.database, batch } }
    const principal = { keyId: 'a', name: 'a', scope: 'agent', instances: null } as const
    const registers = { owner: 'a', max: null, tags: null }
    const asking = { instanceId: 'agent-1', body: one as NewApproval, principal: { ...principal, registers } }
    await expect(requestApproval(slow, services, asking)).rejects.toThrow('The agent is suspended')
    expect((await list()).approvals).toMatchObject([{ state: 'approved', granted_at: null }])
  })

  it('of another agent, or with a key of a person, is refused', async () => {
    expect((await ask(call(), agent, 'agent-2')).status).toBe(403)
    expect((await ask(call(), operator.key)).status).toBe(403)
    expect((await ask(call(), adminKey, 'agent-9')).status).toBe(404)
  })

  it.each([
    [{ attempt: 'x' }, 'attempt must be a UUID.'],
    [{ args_sha256: 'A'.repeat(64) }, 'args_sha256 must be a SHA-256 in lower-case hex.'],
    [{ tool: ' ' }, 'tool must not be blank.'],
    [{ args: 'ä'.repeat(2_049) }, 'args must have at most 4096 bytes.'],
    [{ approvals: 3 }, 'approvals must be 1, or 2.'],
    [{ wait_seconds: 1 }, 'wait_seconds must be >= 10.'],
    [{ wait_seconds: 86_401 }, 'wait_seconds must be <= 86400.'],
    [{ state: 'granted' }, 'state is not a known field.'],
    [{ tool: 'a\u0000b' }, 'tool must not contain the NUL character.'],
  ])('with %j is refused', async (wrong, sentence) => {
    const { status, body } = await ask(call(wrong))
    expect([status, body.error]).toEqual([400, sentence])
  })

  it('is refused beyond the limits of an agent', async () => {
    const hash = (n: number) => n.toString(16).padStart(64, '0')
    for (let n = 0; n < approvalLimits.pendingOfInstance; n++) await ask(call({ args_sha256: hash(n) }))
    const { status, body } = await ask(call())
    expect([status, body.error]).toEqual([
      429,
      '50 requests of agent-1 wait for an operator, and no more may: decide them first.',
    ])
    // An identical call joins its request.
    expect(await stateOf(call({ args_sha256: hash(0) }))).toBe('pending')
    service.clock.advance(10 * minuteMs)
    expect(await stateOf(call())).toBe('pending')
  })

  it('is refused when an agent asks far more often than it has calls that wait', async () => {
    const one = call()
    const answers = await Promise.all(Array.from({ length: 150 }, () => ask(one)))
    const refused = answers.filter(({ status }) => status === 429)
    expect(refused).toHaveLength(50)
    expect(refused[0]!.headers['retry-after']).toBe('1')
    expect((await ask(call(), adminKey, 'agent-2')).status).toBe(200)
    service.clock.advance(1_000)
    expect(await stateOf(one)).toBe('pending')
  })

  it('is stored once, however many identical calls ask at the same time', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => ask(call())))
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1)
    expect((await get(answers[0]!.body.id)).asked).toBe(20)
    const id = answers[0]!.body.id
    await approve(id)
    const taking = await Promise.all(Array.from({ length: 20 }, () => ask(call())))
    expect(taking.filter(({ body }) => body.state === 'granted')).toHaveLength(1)
  })
})

it('what the stored policy says of a rule counts, whatever the agent says', async () => {
  const text = {
    title: 'Mail',
    rules: [{ title: 'Two', decision: 'ask', match: { tool: 'send_email' }, approvals: 2, wait: '1h' }],
  }
  const stored = await service.call<{ id: string }>('POST', '/api/policies', { body: { policy: JSON.stringify(text) } })
  const wait = async (rule: string | null, hash: string) => {
    const { body } = await ask(
      call({ policy_id: stored.body.id, rule, args_sha256: hashOf(hash), approvals: 1, wait_seconds: 20 }),
    )
    return [(await get(body.id)).approvals, Date.parse(body.expires_at) - service.clock.now()]
  }
  expect(await wait('Two', 'a')).toEqual([2, hourMs])
  expect((await events(eventTypes.approvalRequested))[0]?.metadata).toMatchObject({ policy: 'Mail', rule: 'Two' })
  expect(await wait('flow', 'b')).toEqual([1, 10 * minuteMs])
  expect(await wait('No such rule', 'c')).toEqual([1, 20_000])
})

// Agents decide by the set that they received last.
it('nothing is granted by a rule that denies by now, and no allowance covers a rule that is gone', async () => {
  const textOf = (rule: object) =>
    JSON.stringify({ title: 'Mail', rules: [{ match: { tool: 'send_email' }, ...rule }] })
  const first = textOf({ title: 'Ask', decision: 'ask' })
  const stored = await service.call<{ id: string }>('POST', '/api/policies', { body: { policy: first } })
  const { id: policy_id } = stored.body
  const store = (rule: object) => service.call('PUT', `/api/policies/${policy_id}`, { body: { policy: textOf(rule) } })
  const next = (digit: string) => call({ policy_id, rule: 'Ask', args_sha256: hashOf(digit) })
  const one = next('a')
  const { id } = (await ask(one)).body
  await approve(id, { for_minutes: 60, max_calls: 10 })
  expect(await stateOf(next('b'))).toBe('granted')
  await store({ title: 'Ask two', decision: 'ask', approvals: 2 })
  expect(await stateOf(next('c'))).toBe('pending')
  await store({ title: 'Ask', decision: 'deny' })
  const { status, body } = await ask(one)
  expect([status, body.error]).toEqual([409, 'The policy denies this call by now: it cannot be approved.'])
  expect((await ask(next('d'))).status).toBe(409)
  expect(await get(id)).toMatchObject({ state: 'approved' })
})

describe('an operator', () => {
  it('must not be an agent, nor the key that asked', async () => {
    const { id } = (await ask(call())).body
    expect((await approve(id, {}, agent)).status).toBe(403)
    const { id: own } = (await ask(call({ args_sha256: hashOf('b') }), adminKey)).body
    const { status, body } = await approve(own, {}, adminKey)
    expect([status, body.error]).toEqual([403, 'This key asked for the approval: another operator has to decide.'])
    expect((await approve(own)).status).toBe(200)
  })

  it('who is second reads who decided', async () => {
    const answers: number[] = []
    const { id } = (await ask(call())).body
    const presses = [approve(id), decide(id, { decision: 'deny' }, second.key)]
    for (const { status, body } of await Promise.all(presses)) {
      answers.push(status)
      if (status === 409) expect(body.error).toMatch(/was (approved|denied) by operator of a test\.$/)
    }
    expect(answers.toSorted()).toEqual([200, 409])
    expect(await events(eventTypes.approvalDecided)).toHaveLength(1)
  })

  it('needs another one where a rule needs two', async () => {
    const one = call({ approvals: 2 })
    const { id } = (await ask(one)).body
    expect((await approve(id)).body).toMatchObject({ state: 'pending', own: true, approved_by: [{ by: operator.id }] })
    const again = await approve(id)
    expect([again.status, again.headers['x-error-code']]).toEqual([409, 'second_operator_required'])
    expect(await stateOf(one)).toBe('pending')
    expect((await approve(id, { for_minutes: 5 }, second.key)).status).toBe(400)
    expect((await approve(id, {}, second.key)).body).toMatchObject({ state: 'approved' })
    expect(await stateOf(one)).toBe('granted')
  })

  it('is one operator with the keys of one rotation', async () => {
    const { id } = (await ask(call({ approvals: 2 }))).body
    await approve(id)
    const { body } = await service.call<{ key: string }>('POST', `/api/keys/${operator.id}/rotate`, { body: {} })
    expect((await approve(id, {}, body.key)).status).toBe(409)
  })

  it('who approved alone is not enough once the rule needs two', async () => {
    const one = call()
    const { id } = (await ask(one)).body
    await approve(id)
    expect((await ask(call({ approvals: 2 }))).body).toMatchObject({ id, state: 'pending' })
    // The agent cannot lower it again.
    expect(await stateOf(one)).toBe('pending')
    expect((await approve(id, {}, second.key)).body.state).toBe('approved')
  })

  it.each([
    [{ decision: 'maybe' }, 'decision must be approve, or deny.'],
    [{ decision: 'approve', reason: ' ' }, 'reason must not be blank.'],
    [
      { decision: 'approve', max_calls: 5 },
      'max_calls needs for_minutes: it bounds the allowance that for_minutes makes.',
    ],
    [{ decision: 'deny', for_minutes: 5 }, 'for_minutes must not be given with deny.'],
    [{ decision: 'approve', for_minutes: 481 }, 'for_minutes must be <= 480.'],
  ])('gets a sentence for %j', async (body, sentence) => {
    const { id } = (await ask(call())).body
    const answer = await decide(id, body)
    expect([answer.status, answer.body.error]).toEqual([400, sentence])
  })

  it('reads pages of what waits and what was decided', async () => {
    const ids: string[] = []
    for (const digit of ['a', 'b', 'c', 'd']) {
      ids.unshift((await ask(call({ args_sha256: hashOf(digit) }))).body.id)
      service.clock.advance(1)
    }
    await decide(ids[1]!, { decision: 'deny' })
    const idsOf = ({ approvals }: ApprovalList) => approvals.map(({ id }) => id)
    const pending = [ids[0], ids[2], ids[3]]
    const first = await list('?state=pending&limit=2')
    expect([idsOf(first), first.pending]).toEqual([pending.slice(0, 2), 3])
    const rest = await list(`?state=pending&limit=2&before=${first.next}`)
    expect([idsOf(rest), rest.next]).toEqual([pending.slice(2), null])
    expect(idsOf(await list('?state=decided'))).toEqual([ids[1]])
    expect(idsOf(await list('?instance_id=agent-2'))).toEqual([])
    expect(idsOf(await list())).toEqual(ids)
  })

  it('leaves an entry in the audit log, and events and alerts that end', async () => {
    const [one, other] = [call(), call({ args_sha256: hashOf('b') })]
    const ids = [(await ask(one)).body.id, (await ask(other)).body.id]
    expect((await events(eventTypes.approvalRequested)).map(({ id }) => id).toSorted()).toEqual(ids.toSorted())
    expect((await events(eventTypes.approvalRequested))[0]).toMatchObject({
      severity: 'warning',
      by_service: true,
      session_id: 'session-1',
      metadata: { approval_id: ids[1], tool: 'send_email', rule: 'Mail outside the company', policy_version: 3 },
    })
    expect((await openAlerts()).map(({ id }) => id)).toEqual(ids)
    await approve(ids[0]!, { reason: 'fine' })
    expect(await openAlerts()).toHaveLength(2)
    await decide(ids[1]!, { decision: 'deny' })
    expect(await openAlerts()).toEqual([])
    const counted = await service.deps.metrics.registry.getSingleMetric('wardline_approvals_total')!.get()
    expect(counted.values.map(({ labels, value }) => [labels.result, value])).toEqual([
      ['requested', 2],
      ['approved', 1],
      ['denied', 1],
    ])
    const { entries } = (await service.call<{ entries: AuditEntry[] }>('GET', '/api/audit')).body
    expect(entries.filter(({ action }) => action.startsWith('approval.'))).toMatchObject([
      { action: 'approval.approve', target: ids[0], actor: operator.id, reason: 'fine' },
      { action: 'approval.deny', target: ids[1], actor: operator.id, before: { tool: 'send_email' } },
    ])
  })
})

describe('an allowance', () => {
  const allow = async (more: object = {}) => {
    const one = call()
    const { id } = (await ask(one)).body
    const { body } = await approve(id, { for_minutes: 60, max_calls: 3, reason: 'newsletter', ...more })
    return { one, id, allowanceId: body.allowance_id! }
  }

  it('grants so many calls of one tool to one agent, each recorded', async () => {
    const { one, id, allowanceId } = await allow()
    expect(await stateOf(one)).toBe('granted')
    const under = call({ args_sha256: hashOf('b') })
    expect((await ask(under)).body).toMatchObject({ state: 'granted', reason: 'newsletter' })
    expect(await stateOf(under)).toBe('granted')
    expect(await stateOf(call({ tool: 'delete_mail' }))).toBe('pending')
    expect((await ask(call(), adminKey, 'agent-2')).body.state).toBe('pending')
    expect(await stateOf(call({ args_sha256: hashOf('c') }))).toBe('granted')
    expect(await stateOf(call({ args_sha256: hashOf('d') }))).toBe('pending')
    expect(await allowances()).toMatchObject([
      { id: allowanceId, approval_id: id, used: 3, max_calls: 3, state: 'used_up', by: operator.id },
    ])
    const { approvals } = await list('?state=decided')
    expect(approvals.map(({ allowance_id }) => allowance_id)).toEqual([allowanceId, allowanceId, allowanceId])
    const { entries } = (await service.call<{ entries: AuditEntry[] }>('GET', '/api/audit?action=allowance.create'))
      .body
    expect(entries).toMatchObject([{ target: allowanceId, after: { max_calls: 3, tool: 'send_email' } }])
    const [alert] = await service.rows<{ description: string }>(
      `select description from alerts where event_type = 'protection_changed'`,
    )
    expect(alert?.description).toContain('allowed agent-1 up to 3 calls of "send_email" without asking')
  })

  it('also grants calls that wait already, but none that was denied or needs two operators', async () => {
    const waiting = call({ args_sha256: hashOf('b') })
    await ask(waiting)
    const denied = call({ args_sha256: hashOf('c') })
    await decide((await ask(denied)).body.id, { decision: 'deny' })
    const two = call({ args_sha256: hashOf('d'), approvals: 2 })
    await ask(two)
    await allow()
    expect([await stateOf(waiting), await stateOf(denied), await stateOf(two)]).toEqual([
      'granted',
      'denied',
      'pending',
    ])
    expect(await stateOf(call({ args_sha256: hashOf('c') }))).toBe('denied')
    expect(await stateOf(call({ args_sha256: hashOf('e'), approvals: 2 }))).toBe('pending')
  })

  it('ends by time and by an operator', async () => {
    const { one, allowanceId } = await allow()
    await ask(one)
    const revoke = (key = operator.key) => service.call('DELETE', `/api/allowances/${allowanceId}`, { key })
    expect((await revoke(agent)).status).toBe(403)
    expect((await revoke()).status).toBe(200)
    expect((await revoke()).status).toBe(409)
    expect(await stateOf(call({ args_sha256: hashOf('b') }))).toBe('pending')
    expect(await allowances()).toMatchObject([{ state: 'revoked' }])
    service.clock.advance(1)
    await allow({ max_calls: 1_000 })
    service.clock.advance(hourMs)
    expect(await stateOf(call({ args_sha256: hashOf('c') }))).toBe('pending')
    expect((await allowances())[0]).toMatchObject({ state: 'expired' })
  })

  it('that was revoked since a call was checked against it does not grant that call', async () => {
    const { allowanceId } = await allow()
    const [checked] = await service.rows<AllowanceRow>('select * from allowances')
    expect((await service.call('DELETE', `/api/allowances/${allowanceId}`, { key: operator.key })).status).toBe(200)
    const { database } = service.deps
    const use = database.batch(changeAllowance(database, checked!, { used: 2 }))
    await expect(use).rejects.toMatchObject({ stale: true })
    expect(await allowances()).toMatchObject([{ state: 'revoked', used: 1 }])
  })

  it('grants no more calls than it has, however many ask at the same time', async () => {
    await allow({ max_calls: 6 })
    const hash = (n: number) => n.toString(16).padStart(64, '0')
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => ask(call({ args_sha256: hash(n) }))))
    expect(answers.filter(({ body }) => body.state === 'granted')).toHaveLength(5)
    expect(answers.filter(({ body }) => body.state === 'pending')).toHaveLength(15)
  })
})

it('is decided once and taken once, also in two processes', async () => {
  if (!service.deps.database.isShared) return
  await using other = await openTestService({ clock: service.clock, dataDir: service.deps.config.dataDir })
  await other.services.keyring.refresh()
  const askAt = (at: TestService, body: object) =>
    at.call<Answered>('POST', '/api/instances/agent-1/approvals', { key: agent, body })
  const decideAt = (at: TestService, id: string, key: string, decision: string) =>
    at.call('POST', `/api/approvals/${id}`, { key, body: { decision } })
  for (let turn = 0; turn < 15; turn++) {
    const args_sha256 = turn.toString(16).padStart(64, '0')
    const calls = Array.from({ length: 6 }, () => call({ args_sha256 }))
    const everywhere = () => Promise.all(calls.map((one, n) => askAt(n % 2 ? service : other, one)))
    const ids = new Set((await everywhere()).map(({ body }) => body.id))
    expect(ids.size).toBe(1)
    const [id = ''] = ids
    const presses = [
      decideAt(service, id, operator.key, 'approve'),
      decideAt(other, id, second.key, turn % 2 ? 'approve' : 'deny'),
    ]
    expect((await Promise.all(presses)).map(({ status }) => status).toSorted()).toEqual([200, 409])
    const { state } = await get(id)
    const granted = (await everywhere()).filter(({ body }) => body.state === 'granted')
    expect(granted).toHaveLength(state === 'approved' ? 1 : 0)
  }
})

it('what ended is deleted with the events of its time', async () => {
  const { id } = (await ask(call())).body
  await approve(id, { for_minutes: 5 })
  await ask(call({ args_sha256: hashOf('b'), approvals: 2 }))
  const forget = async () => {
    await closeExpired(service.deps, service.services)
    await indexEvents(service.deps.database)
    await forgetOldEvents(service.deps)
    await forgetApprovals(service.deps)
  }
  await forget()
  expect([(await list()).approvals.length, (await allowances()).length]).toEqual([2, 1])
  service.clock.advance(100 * dayMs)
  await forget()
  // The job that closed them wrote an event of today.
  const { approvals, pending } = await list()
  expect([approvals, pending, await allowances()]).toEqual([[], 0, []])
  expect(await service.rows('select * from approval_attempts')).toEqual([])
})
