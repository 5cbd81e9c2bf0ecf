import type { Approval } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type AlertReceiver, startAlertReceiver } from '../../testing/alert-receiver.ts'
import { askApproval, askingCall, decideApproval, hashOf } from '../../testing/approvals.ts'
import { openEgress } from '../../testing/receiver.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { callbackData, pressToken } from '../alerts/channels/press-token.ts'
import { receiverMark } from '../alerts/routing/sealed-settings.ts'
import { TelegramPresses } from './telegram-presses.ts'

const approver = 4711
const chat = -1001234567890
const settings = {
  token: '123456:AAAAAAAAAAAAAAAAAAAA',
  chat_id: String(chat),
  decides: true,
  approvers: [String(approver)],
}

let telegram: AlertReceiver
let service: TestService
let presses: TelegramPresses
let channelId: string
let updates: object[]

beforeEach(async () => {
  telegram = await startAlertReceiver()
  updates = []
  telegram.answer = ({ path, body }) => {
    const waiting = updates.filter((_, index) => index >= (body.offset ?? 0))
    const result = path.endsWith('/getUpdates') ? waiting : true
    return { status: 200, body: JSON.stringify({ ok: true, result }) }
  }
  service = await openTestService()
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-1', name: 'agent-1' } })
  const body = { name: 'Ops', type: 'telegram', settings }
  const created = await service.call<{ id: string }>('POST', '/api/alert-channels', { body })
  expect(created.status).toBe(201)
  channelId = created.body.id
  presses = started()
})
afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await telegram[Symbol.asyncDispose]()
})

/** As in another process: requests to the Bot API are redirected to the receiver. */
const started = () => {
  const egress = openEgress()
  const redirected = {
    ...egress,
    post: (request: Parameters<typeof egress.post>[0], signal?: AbortSignal) =>
      egress.post({ ...request, url: request.url.replace('https://api.telegram.org', telegram.url) }, signal),
  }
  return new TelegramPresses(service.deps, service.services, async () => redirected)
}

const ask = async (number: number, changes: object = {}) => {
  const call = askingCall({ args_sha256: hashOf(number), ...changes })
  return (await askApproval(service, call)).body.id
}

const viewOf = async (id: string) => (await service.call<Approval>('GET', `/api/approvals/${id}`)).body

/** The data of a button that the service sent. */
const dataOf = (approvalId: string, decision: 'approve' | 'deny' = 'approve', id = channelId) => {
  const channel = service.services.routingTable.current.channels.find((one) => one.id === id)!
  const press = { approvalId, decision, channelId: id, mark: receiverMark(channel) }
  return callbackData(press, pressToken(press, service.deps.secrets.pressKey))
}

async function press(data: unknown, { from = approver, where = chat }: { from?: number; where?: number } = {}) {
  const callback_query = {
    id: `q${updates.length}`,
    from: { id: from },
    data,
    message: { message_id: 9, chat: { id: where } },
  }
  updates.push({ update_id: updates.length, callback_query })
  const before = telegram.taken.length
  await presses.run()
  return telegram.taken.slice(before).map(({ path, body }) => [path.split('/').at(-1), body] as const)
}

describe('a press in Telegram', () => {
  it('decides, answers, and takes the buttons off the message', async () => {
    const id = await ask(1)
    expect(dataOf(id)).toHaveLength(64)
    const calls = await press(dataOf(id))
    expect(calls).toEqual([
      ['getUpdates', expect.objectContaining({ allowed_updates: ['callback_query'] })],
      ['answerCallbackQuery', { callback_query_id: 'q0', text: 'Approved.', show_alert: true }],
      ['editMessageReplyMarkup', { chat_id: chat, message_id: 9, reply_markup: { inline_keyboard: [] } }],
    ])
    expect(await viewOf(id)).toMatchObject({ state: 'approved', approved_by: [{ by_name: 'Ops (channel)' }] })
    const [entry] = await service.rows(`select actor, after from audit_log where action = 'approval.approve'`)
    expect(JSON.parse(String(entry!.after))).toMatchObject({ channel_id: channelId, telegram_user: '4711' })
    const second = await ask(2)
    await press(dataOf(second, 'deny'))
    expect((await viewOf(second)).state).toBe('denied')
  })

  it('says who decided before', async () => {
    const id = await ask(1)
    await decideApproval(service, id, (await service.createKey('operator')).key, { decision: 'deny' })
    const calls = await press(dataOf(id))
    expect(calls[1]?.[1].text).toBe(`The approval ${id} was denied by operator of a test.`)
  })

  it('decides nothing by another user, from another chat, or with invented data', async () => {
    const id = await ask(1)
    const refused = async (calls: ReturnType<typeof press>) => {
      expect((await calls).map(([method, { text }]) => [method, text])).toEqual([
        ['getUpdates', undefined],
        ['answerCallbackQuery', 'You may not decide this.'],
      ])
      expect((await viewOf(id)).state).toBe('pending')
    }
    await refused(press(dataOf(id), { from: 4712 }))
    await refused(press(dataOf(id), { where: 99 }))
    await refused(press(`a${dataOf(id, 'deny').slice(1)}`))
    await refused(press(dataOf(await ask(2)).slice(0, 23) + dataOf(id).slice(23)))
    for (const data of [undefined, '', 'a'.repeat(64), dataOf(id).slice(0, 63), { a: 1 }]) await refused(press(data))
    const data = dataOf(id)
    const fewer = { ...settings, approvers: ['1'] }
    await service.call('PATCH', `/api/alert-channels/${channelId}`, { body: { settings: fewer } })
    await refused(press(data))
  })

  it('is refused if the rule needs two operators', async () => {
    const id = await ask(1, { approvals: 2 })
    const calls = await press(dataOf(id))
    expect(calls[1]?.[1].text).toContain('needs two operators')
    expect(await viewOf(id)).toMatchObject({ state: 'pending', approved_by: [] })
  })

  it('that is read again after a crash decides nothing more', async () => {
    const id = await ask(1)
    await press(dataOf(id))
    presses = started()
    await presses.run()
    const texts = telegram.taken.flatMap(({ body }) => body.text ?? [])
    expect(texts).toEqual(['Approved.', `The approval ${id} was approved by Ops (channel).`])
  })
})

it('reads nothing once the channel is disabled or while another process reads', async () => {
  telegram.answer = () => undefined
  const stopping = new AbortController()
  const running = presses.run(stopping.signal)
  await expect.poll(() => telegram.attempts.length).toBe(1)
  await started().run()
  expect(telegram.attempts).toHaveLength(1)
  stopping.abort()
  await running
  await service.call('PATCH', `/api/alert-channels/${channelId}`, { body: { enabled: false } })
  service.clock.advance(20_000)
  await presses.run()
  expect(telegram.attempts).toHaveLength(1)
})

it('waits before the next request if Telegram refuses, as while the bot has a webhook', async () => {
  telegram.answer = () => ({ status: 409, body: '{"ok":false}' })
  for (let run = 0; run < 3; run++) await presses.run()
  expect(telegram.attempts).toHaveLength(1)
  service.clock.advance(17_000)
  await presses.run()
  expect(telegram.attempts).toHaveLength(2)
  expect(service.logged.join()).not.toContain('AAAAAAAAAA')
})

it('needs the users who decide', async () => {
  const { approvers: _, ...rest } = settings
  const body = { name: 'Ops', type: 'telegram', settings: rest }
  const { status, body: answer } = await service.call<{ error: string }>('POST', '/api/alert-channels', { body })
  expect([status, answer.error]).toEqual([400, expect.stringContaining('settings.approvers')])
})
