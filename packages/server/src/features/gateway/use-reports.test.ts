import type { BaselineView, EventRow } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startOf } from '../../clock.ts'
import { openTestGateway } from '../../testing/model-gateway.ts'
import { openTestService } from '../../testing/service.ts'
import { openGateway } from './gateway.ts'
import { UseReports } from './use-reports.ts'

const windowMs = 300_000
const settledMs = 30_000
const chat = '/openai/v1/chat/completions'
/** In USD for a million tokens. */
const prices = { 'openai/m-*': { input: 10, output: 30 } }

let test: Awaited<ReturnType<typeof openTestGateway>>
let key: string
beforeEach(async () => {
  test = await openTestGateway({ file: { prices } })
  key = (await test.service.createKey('agent', ['bot', 'other'])).key
  test.service.clock.advance(windowMs - (test.service.clock.now() % windowMs))
  await test.service.services.ruleRunner.run()
})
afterEach(() => test[Symbol.asyncDispose]())

async function call({ agent = 'bot', model = 'm-1', tokens = [60, 40] } = {}, port = test.gateway.port) {
  test.answer = ({ response }) => {
    const usage = { prompt_tokens: tokens[0], completion_tokens: tokens[1] }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ choices: [], usage }))
  }
  const reply = await fetch(`http://127.0.0.1:${port}${chat}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'wardline-instance': agent },
    body: JSON.stringify({ model }),
  })
  expect(reply.status).toBe(200)
  await reply.text()
}
const run = () => test.service.services.useReports.run(test.service.services.ruleRunner.isHolder)
/** Stores what is under way, ends the window and reports it. */
async function endWindow() {
  await test.service.services.ingest.whenIdle()
  const { clock } = test.service
  clock.advance(startOf(clock.now(), windowMs) + windowMs + settledMs - clock.now())
  await run()
}
const eventsOf = async (type: string, agent = 'bot') => {
  await test.service.services.ingest.whenIdle()
  const path = `/api/events?event_type=${type}&instance_id=${agent}`
  return (await test.service.call<{ events: EventRow[] }>('GET', path)).body.events
}
const reported = async (agent?: string) =>
  (await eventsOf('session_metrics', agent)).map(({ description }) => JSON.parse(description))
const baselines = async () =>
  (await test.service.call<{ baselines: BaselineView[] }>('GET', '/api/instances/bot/baselines')).body.baselines

it('matches rules on the model and on tokens', async () => {
  const { ruleRunner } = test.service.services
  const create = async (field: object) => {
    const body = {
      title: 'Model',
      severity: 'warning',
      detection: { call: { event_type: 'model_call', by_service: true, ...field }, condition: 'call' },
    }
    const { body: stored } = await test.service.call<{ id: string; error?: string }>('POST', '/api/rules', { body })
    expect(stored.error).toBeUndefined()
    await ruleRunner.run()
    await ruleRunner.whenIdle()
    return stored.id
  }
  const rules = [await create({ 'metadata.model': 'm-9' }), await create({ 'metadata.input_tokens|gte': 5_000 })]
  await call()
  await call({ model: 'm-9' })
  await call({ tokens: [5_000, 1] })
  await test.service.services.ingest.whenIdle()
  await ruleRunner.run()
  await ruleRunner.whenIdle()
  const matches = await eventsOf('rule_matched')
  const [second, third] = (await eventsOf('model_call')).toReversed().slice(1)
  expect(matches.toReversed().map(({ metadata }) => metadata)).toMatchObject([
    { rule: rules[0], events: [second!.id] },
    { rule: rules[1], events: [third!.id] },
  ])
})

describe('the use of five minutes', () => {
  it('is reported by the service: tokens, and millionths of a USD where the price is known', async () => {
    await call()
    await call({ tokens: [1_000, 0] })
    await call({ agent: 'other', model: 'x-1' })
    await endWindow()
    expect(await reported()).toEqual([{ tokens_per_5min: 1_100, cost_per_5min: 11_800 }])
    expect(await reported('other')).toEqual([{ tokens_per_5min: 100 }])
    expect((await eventsOf('session_metrics'))[0]).toMatchObject({ by_service: true, source: 'wardline' })
    // No calls, no report.
    await endWindow()
    expect(await reported()).toHaveLength(1)
  })

  it('has the calls of Gemini that get their events as a list', async () => {
    const events = [3, 40].map((count) => ({ usageMetadata: { promptTokenCount: 60, candidatesTokenCount: count } }))
    test.answer = ({ response }) =>
      void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(events))
    const headers = { 'wardline-instance': 'bot' }
    const reply = await test.send('/gemini/v1beta/models/m-1:streamGenerateContent', { key, headers })
    await reply.text()
    await endWindow()
    expect(await reported()).toEqual([{ tokens_per_5min: 100 }])
  })

  it('is reported once and as a whole, whichever process the calls went through and reports them', async () => {
    const { dataDir } = test.service.deps.config
    await using other = await openTestService({ dataDir, clock: test.service.clock, env: test.env })
    const gateway = await openGateway(other.deps, other.services)
    await call()
    await call({}, gateway.port)
    await other.services.ingest.whenIdle()
    await gateway.close(0)
    await endWindow()
    await new UseReports(other.deps, other.services).run(true)
    await run()
    expect(await reported()).toEqual([{ tokens_per_5min: 200, cost_per_5min: 3_600 }])
    expect((await baselines()).map(({ samples }) => samples)).toEqual([1, 1])
    // A process that does not lead reports nothing.
    await call()
    await other.services.useReports.run(other.services.ruleRunner.isHolder)
    expect(await reported()).toHaveLength(1)
  })

  it('is judged by a baseline of the agent, so that a runaway is an anomaly in tokens and in money', async () => {
    for (let window = 0; window < 290; window++) {
      await call({ tokens: [600 + (window % 7) * 50, 40 + (window % 5) * 10] })
      await endWindow()
    }
    expect(await eventsOf('anomaly_detected')).toEqual([])
    expect((await baselines()).map(({ metric, basis }) => [metric, basis])).toEqual([
      ['cost_per_5min', 'own'],
      ['tokens_per_5min', 'own'],
    ])
    for (let count = 0; count < 40; count++) await call({ tokens: [900, 80] })
    await endWindow()
    const found = (await eventsOf('anomaly_detected')).map(({ metadata, by_service }) => [
      metadata?.metric,
      metadata?.value,
      by_service,
    ])
    expect(found.toSorted()).toEqual([
      ['cost_per_5min', 456_000, true],
      ['tokens_per_5min', 39_200, true],
    ])
    // Its samples are on the page of the agent.
    const path = '/api/instances/bot/baselines/tokens_per_5min'
    const { samples } = (await test.service.call<{ samples: { value: number }[] }>('GET', path)).body
    expect(samples.at(-1)?.value).toBe(39_200)
  }, 60_000)
})

// Attack: an agent reports high figures itself, so that a later runaway looks usual.
it.each(['tokens_per_5min', 'cost_per_5min'])('refuses %s from agents', async (metric) => {
  await call()
  await endWindow()
  const before = await baselines()
  const report = {
    severity: 'info',
    source: 'bot',
    event_type: 'session_metrics',
    description: JSON.stringify({ tool_calls_per_5min: 1, [metric]: 1e9 }),
    instance_id: 'bot',
  }
  const refused = await test.service.call<{ error: string }>('POST', '/api/events', { key, body: report })
  expect(refused.status).toBe(400)
  expect(refused.body.error).toBe(
    `The description of session_metrics must not contain ${metric}: only the model gateway measures it.`,
  )
  const escaped = report.description.replace(metric, `\\u00${metric.charCodeAt(0).toString(16)}${metric.slice(1)}`)
  const batch = await test.service.call<{ errors: object[] }>('POST', '/api/events/batch', {
    key,
    body: [report, { ...report, description: escaped }, { ...report, source: 'wardline' }],
  })
  expect(batch.body.errors).toHaveLength(3)
  expect(await baselines()).toEqual(before)
  expect(await reported()).toHaveLength(1)
})
