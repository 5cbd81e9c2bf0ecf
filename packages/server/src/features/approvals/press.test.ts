import { randomBytes } from 'node:crypto'
import type { Approval, ApprovalPress } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { minuteMs } from '../../clock.ts'
import { type AlertReceiver, startAlertReceiver } from '../../testing/alert-receiver.ts'
import { askApproval, askingCall, decideApproval, hashOf } from '../../testing/approvals.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

let receiver: AlertReceiver
let service: TestService
let agent: string
let operator: string
let channelId: string

const settings = (topic: string, decides = true) => ({ url: `${receiver.url}/${topic}`, token: 'tk_1', decides })
const addChannel = async (name: string, topic: string, decides = true): Promise<string> => {
  const body = { name, type: 'ntfy', settings: settings(topic, decides) }
  const created = await service.call<{ id: string }>('POST', '/api/alert-channels', { body })
  expect(created.status).toBe(201)
  return created.body.id
}

beforeEach(async () => {
  receiver = await startAlertReceiver()
  // ntfy answers with the message; here what is secret of it comes first, because the log keeps only the beginning.
  receiver.answer = ({ body }) => {
    const pressed = (body.actions ?? []).map((action: Action) => action.body)
    return { status: 200, body: JSON.stringify({ id: 'sCaW4Iqv', pressed, ...body }) }
  }
  service = await openTestService({
    env: { WARDLINE_PUBLIC_URL: 'https://wardline.example.com/watch', WARDLINE_ALERT_ALLOW_CIDRS: '127.0.0.0/8' },
  })
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-1', name: 'agent-1' } })
  agent = (await service.createKey('agent')).key
  operator = (await service.createKey('operator')).key
  channelId = await addChannel('Phone', 'on-call')
})
afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

async function dispatch(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    await service.services.dispatcher.run()
    await service.services.dispatcher.whenIdle()
  }
}

const ask = async (number: number, changes: object = {}) => {
  const call = askingCall({ args_sha256: hashOf(number), ...changes })
  const { body } = await askApproval(service, call, { key: agent })
  return { id: body.id, again: () => askApproval(service, call, { key: agent }) }
}

interface Action {
  label: string
  url: string
  method: string
  headers: Record<string, string>
  body: string
}

const messagesOf = (id: string, topic = 'on-call') =>
  receiver.taken.map(({ body }) => body).filter((body) => body.topic === topic && JSON.stringify(body).includes(id))

/** The buttons of the message about an approval, as the app has them. */
async function buttonsOf(id: string, topic?: string) {
  await dispatch()
  const actions: Action[] = messagesOf(id, topic).at(-1)?.actions ?? []
  const [approve, deny] = actions.map(({ body }) => JSON.parse(body) as ApprovalPress)
  return { actions, approve: approve!, deny: deny! }
}

const press = (id: string, body: ApprovalPress) =>
  service.call<{ error: string }>('POST', `/api/approvals/${id}/press`, { key: null, body })

const viewOf = async (id: string) => (await service.call<Approval>('GET', `/api/approvals/${id}`)).body

describe('buttons of ntfy', () => {
  it('approve the call for the agent, once, and name the channel', async () => {
    const { id, again } = await ask(1)
    const { actions, approve } = await buttonsOf(id)
    expect(actions.map(({ label, url, method, headers }) => [label, url, method, headers])).toEqual(
      ['Approve', 'Deny'].map((label) => [
        label,
        `https://wardline.example.com/watch/api/approvals/${id}/press`,
        'POST',
        { 'content-type': 'application/json' },
      ]),
    )
    expect(messagesOf(id)[0].message).toContain('Arguments: {"to":"a[@]example[.]com"}')
    expect((await press(id, approve)).status).toBe(200)
    expect(await viewOf(id)).toMatchObject({
      state: 'approved',
      approved_by: [{ by: 'channel:Phone', by_name: 'Phone (channel)' }],
    })
    expect((await again()).body.state).toBe('granted')
    const replayed = await press(id, approve)
    expect([replayed.status, replayed.body.error]).toEqual([409, `The approval ${id} was approved by Phone (channel).`])
    const [entry] = await service.rows(`select actor, scope, after from audit_log where action = 'approval.approve'`)
    expect(entry).toMatchObject({ actor: 'channel:Phone', scope: 'channel' })
    expect(JSON.parse(String(entry!.after))).toMatchObject({ state: 'approved', channel_id: channelId })
    const log = await service.call<{ entries: object[] }>('GET', '/api/audit?action=approval.approve')
    expect(log.body.entries[0]).toMatchObject({ actor: 'channel:Phone', actor_name: 'Phone (channel)' })
  })

  it('deny the call', async () => {
    const { id, again } = await ask(1)
    const { deny } = await buttonsOf(id)
    expect((await press(id, deny)).status).toBe(200)
    expect((await again()).body.state).toBe('denied')
    expect(await viewOf(id)).toMatchObject({ denied_by: { by_name: 'Phone (channel)' } })
  })

  it('say who was faster', async () => {
    const { id } = await ask(1)
    const { approve } = await buttonsOf(id)
    await decideApproval(service, id, operator, { decision: 'deny' })
    const late = await press(id, approve)
    expect([late.status, late.body.error]).toEqual([409, `The approval ${id} was denied by operator of a test.`])
  })

  it('and operators at the same time make one decision', async () => {
    for (let n = 0; n < 5; n++) {
      const { id } = await ask(n)
      const { approve } = await buttonsOf(id)
      const answers = await Promise.all([
        press(id, approve),
        decideApproval(service, id, operator, { decision: 'deny' }),
        press(id, approve),
      ])
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409])
      service.clock.advance(10 * minuteMs)
    }
  })

  it.each<[string, object]>([
    ['needs two operators', { approvals: 2 }],
    ['has no arguments to show', { args: undefined }],
    ['has arguments too long to show in full', { args: 'x'.repeat(601) }],
  ])('are missing for a request that %s', async (_, changes) => {
    const { id } = await ask(1, changes)
    expect((await buttonsOf(id)).actions).toEqual([])
    expect(messagesOf(id)).toHaveLength(1)
  })

  it('are missing from a message about several requests, and from other channels', async () => {
    await addChannel('Wall', 'wall', false)
    const { id } = await ask(1)
    expect((await buttonsOf(id, 'wall')).actions).toEqual([])
    expect(messagesOf(id, 'wall')[0].message).not.toContain('Arguments')
    await ask(2)
    await ask(3)
    await dispatch()
    service.clock.advance(5 * minuteMs + 1_000)
    await dispatch()
    const last = receiver.taken.filter(({ body }) => body.topic === 'on-call').at(-1)!.body
    expect(last.title).toContain('alerts')
    expect(last.actions).toBeUndefined()
  })

  it('are missing from a message that arrives after the request expired', async () => {
    const { id } = await ask(1, { wait_seconds: 10 })
    service.clock.advance(11_000)
    expect((await buttonsOf(id)).actions).toEqual([])
  })

  it('are missing from a message that is sent after the decision', async () => {
    const { id } = await ask(1)
    await decideApproval(service, id, operator, { decision: 'deny' })
    expect((await buttonsOf(id)).actions).toEqual([])
  })

  it('are never shown to readers of messages and of the log of deliveries', async () => {
    const viewer = (await service.createKey('viewer')).key
    const { id } = await ask(1)
    const { approve, deny } = await buttonsOf(id)
    const log = await service.call<{ messages: { id: string }[] }>('GET', '/api/alert-messages', { key: viewer })
    const shown = [log.text]
    for (const { id: messageId } of log.body.messages) {
      shown.push((await service.call('GET', `/api/alert-messages/${messageId}/content`, { key: viewer })).text)
    }
    const all = [...shown, ...service.logged, JSON.stringify(await service.rows('select * from alert_messages'))].join()
    expect(shown.join()).toContain('[secret]')
    for (const { token } of [approve, deny]) expect(all).not.toContain(token)
  })
})

describe('a press is refused like an unknown approval', () => {
  const refused = async (id: string, body: ApprovalPress) => {
    const { status, body: answer } = await press(id, body)
    expect([status, answer.error]).toEqual([404, expect.stringContaining(`No approval with id ${id}`)])
    expect((await viewOf(id)).state).toBe('pending')
  }

  it('with a forged token, and the token of another approval, decision or channel', async () => {
    const other = await addChannel('Tablet', 'tablet')
    const { id } = await ask(1)
    const { approve, deny } = await buttonsOf(id)
    const second = await ask(2)
    await refused(id, { ...approve, token: randomBytes(32).toString('base64url') })
    await refused(id, { ...approve, token: deny.token })
    await refused(id, { ...deny, decision: 'approve' })
    await refused(id, { ...approve, channel_id: other })
    await refused(id, { ...approve, channel_id: 'env-ntfy' })
    await refused(second.id, approve)
    const unknown = '01980000-0000-7000-8000-000000000001'
    const nobody = await press(unknown, approve)
    expect([nobody.status, nobody.body.error]).toEqual([
      404,
      (await press(id, { ...approve, token: deny.token })).body.error.replace(id, unknown),
    ])
  })

  it.each<[string, (id: string) => Promise<unknown>]>([
    ['was disabled', (id) => service.call('PATCH', `/api/alert-channels/${id}`, { body: { enabled: false } })],
    ['was deleted', (id) => service.call('DELETE', `/api/alert-channels/${id}`)],
    [
      'lost its buttons',
      (id) => service.call('PATCH', `/api/alert-channels/${id}`, { body: { settings: settings('on-call', false) } }),
    ],
    [
      'leads to another topic',
      (id) => service.call('PATCH', `/api/alert-channels/${id}`, { body: { settings: settings('elsewhere') } }),
    ],
  ])('once the channel %s', async (_, change) => {
    const { id } = await ask(1)
    const { approve } = await buttonsOf(id)
    await change(channelId)
    await refused(id, approve)
  })

  it('once another process took the buttons away', async () => {
    const { id } = await ask(1)
    const { approve } = await buttonsOf(id)
    await using other = await openTestService({
      dataDir: service.deps.config.dataDir,
      clock: service.clock,
      env: { WARDLINE_PUBLIC_URL: 'https://wardline.example.com', WARDLINE_ALERT_ALLOW_CIDRS: '127.0.0.0/8' },
    })
    const body = { settings: settings('on-call', false) }
    expect((await other.call('PATCH', `/api/alert-channels/${channelId}`, { body })).status).toBe(200)
    await refused(id, approve)
  })

  it('and with 429 after many from one address', async () => {
    const { id } = await ask(1)
    const { approve } = await buttonsOf(id)
    const forged = { ...approve, token: randomBytes(32).toString('base64url') }
    const statuses: number[] = []
    for (let n = 0; n < 30; n++) statuses.push((await press(id, forged)).status)
    expect([statuses[0], statuses.at(-1)]).toEqual([404, 429])
    // The valid one is not delayed by guesses from the same address.
    expect((await press(id, approve)).status).toBe(200)
  })
})

it('refuses a press after the request expired, or once it needs two operators', async () => {
  const { id } = await ask(1)
  const { approve } = await buttonsOf(id)
  // The policy changed meanwhile.
  await ask(1, { approvals: 2 })
  const alone = await press(id, approve)
  expect([alone.status, alone.body.error]).toEqual([409, expect.stringContaining('needs two operators')])
  service.clock.advance(10 * minuteMs)
  const late = await press(id, approve)
  expect([late.status, late.body.error]).toEqual([409, expect.stringContaining('expired')])
})

it('gives buttons only where they can be pressed, reports it to the other channels, and shows it', async () => {
  const view = await service.call<{ decides: boolean }>('GET', `/api/alert-channels/${channelId}`)
  expect(view.body.decides).toBe(true)
  await addChannel('Tablet', 'tablet')
  await dispatch()
  expect(JSON.stringify(receiver.taken.map(({ body }) => body))).toContain(
    'let everyone who reads the channel \\"Tablet\\" (ntfy) decide approvals',
  )
  await using inside = await openTestService({ env: { WARDLINE_ALERT_ALLOW_CIDRS: '127.0.0.0/8' } })
  const body = { name: 'Phone', type: 'ntfy', settings: settings('on-call') }
  const created = await inside.call<{ error: string }>('POST', '/api/alert-channels', { body })
  expect([created.status, created.body.error]).toEqual([400, expect.stringContaining('WARDLINE_PUBLIC_URL')])
})
