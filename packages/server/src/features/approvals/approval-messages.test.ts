import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { minuteMs } from '../../clock.ts'
import { type AlertReceiver, startAlertReceiver } from '../../testing/alert-receiver.ts'
import { askApproval, askingCall, decideApproval, hashOf } from '../../testing/approvals.ts'
import { listenOnFreePort, openControlStream } from '../../testing/control-stream.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { closeExpired } from './decisions.ts'

let receiver: AlertReceiver
let service: TestService
let agent: string
let operator: string
beforeEach(async () => {
  receiver = await startAlertReceiver()
  service = await openTestService({
    env: {
      SLACK_WEBHOOK_URL: `${receiver.url}/slack`,
      ALERT_WEBHOOK_URL: `${receiver.url}/webhook`,
      WARDLINE_PUBLIC_URL: 'https://wardline.example.com/watch',
    },
  })
  for (const id of ['agent-1', 'agent-2']) {
    await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
  }
  agent = (await service.createKey('agent')).key
  operator = (await service.createKey('operator')).key
})
afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

const ask = async (number: number, changes: object = {}, id = 'agent-1') => {
  const { status, body } = await askApproval(service, askingCall({ args_sha256: hashOf(number), ...changes }), {
    key: agent,
    id,
  })
  expect(status).toBe(200)
  return body.id
}
const decide = async (id: string, decision: 'approve' | 'deny' = 'approve') => {
  expect((await decideApproval(service, id, operator, { decision })).status).toBe(200)
}

/** Sends everything that is due now. */
async function dispatch(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    await service.services.dispatcher.run()
    await service.services.dispatcher.whenIdle()
  }
}

const textsAt = (path: string) =>
  receiver.taken.filter((alert) => alert.path === path).map(({ body }) => JSON.stringify(body))

describe('for people, a burst of requests of an agent', () => {
  it('is one message with a link to the request, and each request is one for a machine', async () => {
    const ids: string[] = []
    for (let n = 0; n < 30; n++) {
      ids.push(await ask(n))
      if (n % 10 === 0) await dispatch()
      service.clock.advance(1_000)
    }
    await dispatch()
    expect(textsAt('/slack')).toHaveLength(1)
    expect(textsAt('/slack')[0]).toContain('agent-1 waits for an approval')
    expect(textsAt('/slack')[0]).toContain(`https://wardline.example.com/watch/approvals/${ids[0]}`)
    expect(textsAt('/slack')[0]).toContain('wardline approvals')
    expect(textsAt('/webhook').filter((text) => text.includes('approval_requested'))).toHaveLength(30)
    // Another agent that asks is another message.
    const other = await ask(1, {}, 'agent-2')
    await dispatch()
    expect(textsAt('/slack')).toHaveLength(2)
    expect(textsAt('/slack')[1]).toContain(other)
  })

  it('is one more message after five minutes if nobody decided', async () => {
    for (let n = 0; n < 30; n++) {
      await ask(n)
      if (n === 0) await dispatch()
    }
    // Otherwise those planned only after the five minutes would wait for more.
    await dispatch()
    service.clock.advance(5 * minuteMs - 1_000)
    await dispatch()
    expect(textsAt('/slack')).toHaveLength(1)
    service.clock.advance(2_000)
    await dispatch()
    expect(textsAt('/slack')).toHaveLength(2)
  })

  it('is over when none of them waits any more, decided or expired', async () => {
    const ids = [await ask(1), await ask(2), await ask(3, { wait_seconds: 60 })]
    await dispatch()
    const openAlerts = () => service.rows(`select id from alerts where status = 'open'`)
    expect(await openAlerts()).toHaveLength(3)
    await decide(ids[0]!)
    await decide(ids[1]!, 'deny')
    await dispatch()
    expect([(await openAlerts()).length, textsAt('/slack').length]).toEqual([3, 1])
    service.clock.advance(minuteMs)
    await closeExpired(service.deps, service.services)
    await dispatch()
    expect([await openAlerts(), textsAt('/slack').length]).toEqual([[], 2])
    // The next request is a new problem, and sent at once.
    await ask(4)
    await dispatch()
    expect(textsAt('/slack')).toHaveLength(3)
  })

  // The tool's name is text of the agent.
  it('shows hostile names without their characters that a reader obeys', async () => {
    await ask(1, { tool: '\u001b[2J<!channel> send\u202e', rule: '*bold* <https://evil.example|here>' })
    await dispatch()
    const [text = ''] = textsAt('/slack')
    expect(text).toContain('send')
    expect(text).not.toContain('https://evil')
    expect(text).not.toMatch(/\\u001b|\u202e|\\u202e/)
  })
})

describe('a control stream', () => {
  it('gets each decision about the agent, after its commit', async () => {
    const url = await listenOnFreePort(service.app)
    await using stream = await openControlStream(url, 'agent-1', '?understands=approval')
    await using other = await openControlStream(url, 'agent-2', '?understands=approval')
    for (let n = 0; n < 20; n++) {
      const call = askingCall({ args_sha256: hashOf(n) })
      const { body } = await askApproval(service, call, { key: agent })
      const seen = stream.messages().length
      const decided = decide(body.id, n % 2 === 0 ? 'approve' : 'deny')
      await expect.poll(() => stream.messages().length, { interval: 1 }).toBe(seen + 1)
      const state = n % 2 === 0 ? 'approved' : 'denied'
      expect(stream.messages().at(-1)).toEqual({ action: 'approval', instance_id: 'agent-1', id: body.id, state })
      // What is announced is committed: the agent takes it at once.
      expect((await askApproval(service, call, { key: agent })).body.state).toBe(n % 2 === 0 ? 'granted' : 'denied')
      await decided
    }
    expect(other.messages()).toHaveLength(1)
  })

  it('gets the requests that an allowance covers, and none of another tool', async () => {
    const url = await listenOnFreePort(service.app)
    await using stream = await openControlStream(url, 'agent-1', '?understands=approval')
    const ids = [await ask(1), await ask(2), await ask(3, { approvals: 2 }), await ask(4, { tool: 'delete_mail' })]
    await decideApproval(service, ids[0]!, operator, { decision: 'approve', for_minutes: 5 })
    await expect
      .poll(() =>
        stream
          .messages()
          .slice(1)
          .map(({ id }) => id),
      )
      .toEqual([ids[0], ids[1]])
  })
})
