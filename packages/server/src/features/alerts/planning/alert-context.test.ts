import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type AlertReceiver, startAlertReceiver } from '../../../testing/alert-receiver.ts'
import { openTestService, type TestService } from '../../../testing/service.ts'
import { readMessage } from '../channels/message.ts'

let receiver: AlertReceiver
let service: TestService
const label = 'The env file of the mail bot'

beforeEach(async () => {
  receiver = await startAlertReceiver()
  service = await openTestService({
    env: {
      ALERT_WEBHOOK_URL: `${receiver.url}/webhook`,
      SLACK_WEBHOOK_URL: `${receiver.url}/slack`,
      WARDLINE_PUBLIC_URL: 'https://wardline.example.com',
    },
  })
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-1', name: 'Mail · bot' } })
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
const delivered = (type: string) =>
  receiver.taken
    .filter(({ path, body }) => path === '/webhook' && body.data.event_type === type)
    .map(({ body }) => body.data)
const slackTexts = () => receiver.taken.filter(({ path }) => path === '/slack').map(({ body }) => JSON.stringify(body))

async function plant(): Promise<{ id: string; key: string }> {
  const body = { instanceId: 'agent-1', type: 'api_key', keyType: 'openai', label }
  const created = await service.call<{ id: string; key: string }>('POST', '/api/honeypots', { body })
  await service.services.decoyChecks.refresh()
  return created.body
}
const touch = (key: string) =>
  service.call('POST', '/api/honeypots/check/key', {
    body: { key, meta: { tool: 'shell-exec', instance_id: 'agent-1' } },
  })

describe('an alert of a decoy', () => {
  it('contains the agent, decoy, tool and address, what was done so far and the next commands', async () => {
    const { id, key } = await plant()
    await touch(key)
    await dispatch()
    const [hit] = delivered('honeypot_triggered')
    const ack = `wardline alerts ack ${hit.id}`
    expect(hit).toMatchObject({
      instance_id: 'agent-1',
      instance_name: 'Mail · bot',
      tool: 'shell-exec',
      ip_address: '127.0.0.1',
      decoys: [{ id, label, type: 'api_key', key_type: 'openai', instance_id: 'agent-1' }],
      suspension: null,
      next: ['wardline kill --reason honeypot_triggered agent-1', ack],
      url: `https://wardline.example.com/alerts?alert=${hit.id}`,
    })
    const [text] = slackTexts()
    // A name that an agent chose must not contain the dot that separates facts.
    const facts = `agent-1 (Mail - bot) · honeypot_triggered · decoy: ${label} · tool: shell-exec · from: 127.0.0.1 · A decoy key`
    for (const part of [
      facts,
      'Done so far: nothing',
      'wardline kill --reason honeypot_triggered agent-1',
      ack,
      hit.url,
    ]) {
      expect(text).toContain(part)
    }
  })

  // Readers of events or of public endpoints must not learn where decoys are planted.
  it('contains the label, which events, alerts and public endpoints do not', async () => {
    const { key } = await plant()
    await touch(key)
    await dispatch()
    expect(slackTexts()[0]).toContain(label)
    const event = await service.rows('select * from events')
    const alert = await service.rows('select * from alerts')
    const trust = await service.call('GET', '/api/public/trust', { key: null })
    const list = await service.call('GET', '/api/events')
    expect(event).toHaveLength(1)
    for (const text of [JSON.stringify([event, alert]), trust.text, list.text]) expect(text).not.toContain('mail bot')
  })

  // An agent could otherwise learn the label of a decoy by reporting a fake hit with its id.
  it('does not contain a decoy that a caller named', async () => {
    const { id } = await plant()
    const body = {
      severity: 'breach',
      source: 'agent',
      event_type: 'honeypot_triggered',
      description: 'x',
      instance_id: 'agent-1',
      metadata: { honeypot_id: id, key_id: 'system', toolName: 'web-search' },
    }
    await service.call('POST', '/api/events', { body })
    await dispatch()
    expect(delivered('honeypot_triggered')[0]).toMatchObject({ decoys: [], key: null, tool: 'web-search' })
    expect(slackTexts().join()).not.toContain(label)
  })
})

describe('the context of an alert', () => {
  it('contains the name of the key that suspended the agent, and the time', async () => {
    const operator = await service.createKey('operator')
    await service.call('POST', '/api/kill/agent-1', { key: operator.key, body: { reason: 'odd mails' } })
    const at = new Date(service.clock.now()).toISOString()
    service.clock.advance(1_000)
    const body = {
      severity: 'critical',
      source: 's',
      event_type: 'tool_blocked',
      description: 'x',
      instance_id: 'agent-1',
    }
    await service.call('POST', '/api/events', { body })
    await dispatch()
    expect(delivered('instance_suspended')[0].description).toBe('Suspended by operator of a test: odd mails')
    expect(delivered('tool_blocked')[0]).toMatchObject({
      suspension: { by: 'operator of a test', at, reason: 'odd mails', confirmed: false },
      next: ['wardline instances agent-1', expect.stringMatching(/^wardline alerts ack /)],
    })
    const text = slackTexts().find((one) => one.includes('tool_blocked'))!
    const done = `Done so far: suspended by operator of a test at ${at.slice(11, 19)} UTC, not yet confirmed by the agent: odd mails`
    expect(text).toContain(done)
    expect(slackTexts().join()).not.toContain(operator.id)
  })

  it('contains the newest suspension, and whether the agent confirmed it', async () => {
    await service.call('POST', '/api/kill/agent-1', { body: { reason: 'first' } })
    await service.call('POST', '/api/resume/agent-1')
    await service.call('POST', '/api/kill/agent-1', { body: { reason: 'second' } })
    await service.call('POST', '/api/instances/agent-1/ack', { body: { version: 3 } })
    const body = {
      severity: 'critical',
      source: 's',
      event_type: 'tool_blocked',
      description: 'x',
      instance_id: 'agent-1',
    }
    await service.call('POST', '/api/events', { body })
    await dispatch()
    expect(delivered('tool_blocked')[0].suspension).toMatchObject({
      by: 'WARDLINE_API_KEY',
      reason: 'second',
      confirmed: true,
    })
  })

  it('contains the name of a key that was used for another instance, and its id only in commands', async () => {
    const agent = await service.createKey('agent', ['agent-1'])
    await service.call('POST', '/api/heartbeat', { key: agent.key, body: { instance_id: 'agent-2', name: 'x' } })
    await service.services.ingest.whenIdle()
    await dispatch()
    expect(delivered('identity_mismatch')[0]).toMatchObject({
      key: { id: agent.id, name: 'agent of a test' },
      next: [`wardline keys revoke ${agent.id}`, expect.stringMatching(/^wardline alerts ack /)],
    })
    const text = slackTexts().find((one) => one.includes('identity_mismatch'))!
    expect(text).toContain('key: agent of a test')
    expect(text).toContain('The key agent of a test was used')
    expect(text.replace(`wardline keys revoke ${agent.id}`, '')).not.toContain(agent.id)
  })
})

it('a message stored by an earlier version has an empty context', () => {
  const alerts = [{ id: 'a', seq: 1, description: 'x' }]
  expect(readMessage(JSON.stringify({ id: 'm', alerts })).alerts).toEqual([
    { ...alerts[0], instance_name: null, tool: null, decoys: [], key: null, suspension: null, open: null },
  ])
})
