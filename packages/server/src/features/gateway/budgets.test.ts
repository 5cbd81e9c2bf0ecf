import type { BudgetView, EventRow } from '@wardline/contract'
import { afterEach, describe, expect, it } from 'vitest'
import { openTestGateway } from '../../testing/model-gateway.ts'
import { openTestService } from '../../testing/service.ts'

type TestGateway = Awaited<ReturnType<typeof openTestGateway>>

let test: TestGateway
afterEach(() => test[Symbol.asyncDispose]())

async function open(file: object, tags?: string[]): Promise<string> {
  test = await openTestGateway({ file })
  const body = { scope: 'agent', instances: ['bot', 'other'], tags }
  return (await test.service.call<{ key: string }>('POST', '/api/keys', { body })).body.key
}

const chat = '/openai/v1/chat/completions'
const messages = '/anthropic/v1/messages'
const as = (instance: string) => ({ 'wardline-instance': instance })
const budgets = async () => {
  await test.service.services.modelBudgets.whenIdle()
  return (await test.service.call<{ budgets: BudgetView[] }>('GET', '/api/gateway/budgets')).body.budgets
}
const eventsOf = async (type: string) => {
  await test.service.services.ingest.whenIdle()
  return (await test.service.call<{ events: EventRow[] }>('GET', `/api/events?event_type=${type}`)).body.events
}
const usage = (input: number, output: number) => ({
  choices: [],
  usage: { prompt_tokens: input, completion_tokens: output },
})
const answerJson = (body: object) => {
  test.answer = ({ response }) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
const call = (key: string, instance = 'bot', body: object = { model: 'm-1', max_tokens: 100 }, path = chat) =>
  test.send(path, { key, body, headers: as(instance) })

const shared = { name: 'ads', for: { tags: ['team:ads'] }, per: 'day', tokens: 1_000 }

describe('a budget', () => {
  it('counts what the provider counts, and refuses beyond it until the next day in UTC', async () => {
    const key = await open({ budgets: [shared] }, ['team:ads'])
    answerJson(usage(300, 100))
    expect((await call(key)).status).toBe(200)
    expect((await call(key, 'other')).status).toBe(200)
    expect(await budgets()).toMatchObject([
      { name: 'ads', tokens: { limit: 1_000, used: 800, reserved: 0 }, usd: { limit: null }, instance_id: null },
    ])
    const refused = await call(key, 'bot', { model: 'm-1', max_tokens: 190 })
    expect(refused.status).toBe(429)
    const { error } = (await refused.json()) as { error: { message: string } }
    expect(error.message).toMatch(
      /The budget ads .* 800 of 1,000 tokens used today.* renews at \d{4}-\d\d-\d\dT00:00:00/,
    )
    const untilMidnight = 86_400_000 - (test.service.clock.now() % 86_400_000)
    expect(Number(refused.headers.get('retry-after'))).toBe(Math.ceil(untilMidnight / 1000))
    // Less fits.
    answerJson(usage(50, 20))
    expect((await call(key, 'bot', { model: 'm-1', max_tokens: 90 })).status).toBe(200)
    test.service.clock.advance(untilMidnight)
    expect((await call(key, 'bot', { model: 'm-1', max_tokens: 190 })).status).toBe(200)
    expect(await budgets()).toMatchObject([{ tokens: { used: 70, reserved: 0 } }])
  })

  it('reports 80 % and the first refusal once a day, each with an alert', async () => {
    const key = await open({ budgets: [shared] }, ['team:ads'])
    answerJson(usage(500, 310))
    expect((await call(key)).status).toBe(200)
    await budgets()
    for (let round = 0; round < 3; round++)
      expect((await call(key, 'bot', { model: 'm', max_tokens: 500 })).status).toBe(429)
    const [warning, ...more] = await eventsOf('budget_warning')
    expect(warning).toMatchObject({
      by_service: true,
      severity: 'warning',
      instance_id: 'bot',
      metadata: { budget: 'ads', tokens: { limit: 1_000, used: 810 } },
    })
    expect(more).toEqual([])
    expect(await eventsOf('budget_used_up')).toHaveLength(1)
    expect(await budgets()).toMatchObject([{ warned_at: expect.any(String), refused_at: expect.any(String) }])
  })

  // A team's budget must neither be left nor be used up by an agent that tags itself.
  it('follows tags of operators and keys, never those of the agent', async () => {
    const key = await open({ budgets: [shared] })
    const heartbeat = { instance_id: 'bot', name: 'Bot', tags: ['team:ads'] }
    await test.service.call('POST', '/api/heartbeat', { key, body: heartbeat })
    answerJson(usage(900, 50))
    expect((await call(key)).status).toBe(200)
    expect(await budgets()).toMatchObject([{ tokens: { used: 0 } }])
    await test.service.call('PUT', '/api/instances/bot/tags', { body: { tags: ['team:ads'] } })
    await test.service.call('POST', '/api/heartbeat', { key, body: { ...heartbeat, tags: [] } })
    expect((await call(key)).status).toBe(200)
    expect((await call(key)).status).toBe(429)
    expect((await call(key, 'other')).status).toBe(200)
  })

  it('is shared by its agents, or of each of them', async () => {
    const each = { name: 'each', for: { instances: ['*'] }, per: 'day', each_agent: true, tokens: 500 }
    const key = await open({ budgets: [each, { ...each, name: 'all', each_agent: false, tokens: 900 }] })
    answerJson(usage(300, 105))
    expect((await call(key)).status).toBe(200)
    expect((await call(key)).status).toBe(429)
    expect((await call(key, 'other')).status).toBe(200)
    const found = await budgets()
    expect(
      found.map(({ name, instance_id, tokens: { used, reserved } }) => [name, instance_id, used, reserved]),
    ).toEqual([
      ['each', 'bot', 405, 0],
      ['each', 'other', 405, 0],
      ['all', null, 810, 0],
    ])
  })

  it('in money uses the price of the model, and reserves it before', async () => {
    const prices = {
      'anthropic/claude-*': { input: 3, cached: 0.3, cache_write: 3.75, output: 15, max_output: 1_000 },
      '*/*': { input: 100, output: 100 },
    }
    const money = { for: { instances: ['bot'] }, per: 'day', usd: 0.03 }
    const key = await open({ budgets: [money], prices })
    answerJson({
      usage: { input_tokens: 100, cache_read_input_tokens: 1_000, cache_creation_input_tokens: 200, output_tokens: 40 },
    })
    const claude = { model: 'claude-opus', max_tokens: 1_000 }
    expect((await call(key, 'bot', claude, messages)).status).toBe(200)
    const usd = (100 * 3 + 1_000 * 0.3 + 200 * 3.75 + 40 * 15) / 1e6
    expect(await budgets()).toMatchObject([{ name: 'bot', usd: { used: usd, reserved: 0 }, tokens: { used: 1_340 } }])
    expect((await eventsOf('model_call'))[0]!.metadata).toMatchObject({ cost_usd: usd, cached_tokens: 1_000 })
    expect((await call(key, 'bot', { model: 'claude-opus', max_tokens: 1_900 }, messages)).status).toBe(429)
    expect((await call(key, 'bot', { model: 'unknown', max_tokens: 280 }, messages)).status).toBe(429)
    const metrics = await test.service.deps.metrics.registry.metrics()
    const labels = 'upstream="anthropic",price="anthropic/claude-*"'
    for (const line of [
      `wardline_gateway_cost_usd_total{${labels}} ${usd}`,
      `wardline_gateway_tokens_total{${labels},direction="input"} 1300`,
      `wardline_gateway_tokens_total{${labels},direction="output"} 40`,
      'wardline_gateway_budget_refusals_total{budget="bot"} 2',
    ]) {
      expect(metrics).toContain(`${line}\n`)
    }
  })

  it.each<[string, object, number]>([
    ['a call without a limit of its output is reserved with the largest', { model: 'm' }, 128_000],
    ['several answers', { model: 'm', max_tokens: 10, n: 5 }, 50],
  ])('reserves for %s', async (_, body, output) => {
    const tokens = output + Math.ceil(JSON.stringify(body).length / 2)
    const key = await open(
      {
        budgets: [
          { ...shared, tokens: tokens - 1 },
          { ...shared, name: 'b', tokens },
        ],
      },
      ['team:ads'],
    )
    expect((await call(key, 'bot', body)).status).toBe(429)
    // What the other budget held is free again.
    expect((await budgets()).map(({ tokens: { reserved } }) => reserved)).toEqual([0, 0])
  })

  it('refuses bodies that it cannot count, and lets free calls pass', async () => {
    const key = await open({ budgets: [{ ...shared, tokens: 1 }] }, ['team:ads'])
    expect((await test.send('/openai/v1/models', { key, method: 'GET', headers: as('bot') })).status).toBe(200)
    expect((await call(key, 'bot', {}, `${messages}/count_tokens`)).status).toBe(200)
    await test[Symbol.asyncDispose]()
    const rich = await open({ budgets: [{ ...shared, tokens: 1e9 }] }, ['team:ads'])
    expect((await test.send(chat, { key: rich, body: 'no json', headers: as('bot') })).status).toBe(400)
    expect(await budgets()).toMatchObject([{ tokens: { used: 0, reserved: 0 } }])
  })

  it.each<[string, string, () => void, number]>([
    [
      'an error of the provider with nothing',
      chat,
      () => {
        test.answer = ({ response }) => void response.writeHead(529).end('{}')
      },
      0,
    ],
    ['an upstream that is away with nothing', '/away/v1/chat/completions', () => {}, 0],
    ['an answer without usage with what was reserved', chat, () => answerJson({}), 100 + 16],
    [
      'an answer that breaks off with what was reserved',
      chat,
      () => {
        test.answer = ({ response }) => {
          response.writeHead(200, { 'content-length': 50 })
          response.write('{')
          setImmediate(() => response.destroy())
        }
      },
      100 + 16,
    ],
  ])('charges %s', async (_, path, prepare, tokens) => {
    const key = await open({ budgets: [shared] }, ['team:ads'])
    prepare()
    await call(key, 'bot', { model: 'm-1', max_tokens: 100 }, path)
      .then((reply) => reply.text())
      .catch(() => {})
    await expect.poll(async () => (await budgets())[0]!.tokens).toMatchObject({ reserved: 0, used: tokens })
  })

  // Parallel calls that each see room for themselves would exceed the budget together.
  it('is never exceeded by 200 parallel calls', async () => {
    const key = await open({ budgets: [{ ...shared, tokens: 1_200 }] }, ['team:ads'])
    expect((await call(key, 'bot', { model: 'm-1', max_tokens: 1 })).status).toBe(200)
    await test.service.call('PUT', '/api/instances/bot/tags', { body: { tags: ['team:ads'] } })
    let open_ = 0
    let peak = 0
    const asked: (() => void)[] = []
    test.answer = ({ response }) => {
      open_ += 1
      peak = Math.max(peak, open_)
      asked.push(() => {
        open_ -= 1
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(usage(15, 100)))
      })
    }
    const replies = Array.from({ length: 200 }, () => call(key, 'bot', { model: 'm-1', max_tokens: 100 }))
    const refused = Promise.all(replies.map(async (reply) => (await reply).status === 429))
    await expect.poll(() => asked.length).toBeGreaterThan(8)
    const [{ tokens } = { tokens: undefined }] = await budgets()
    expect(tokens!.used + tokens!.reserved).toBeLessThanOrEqual(1_200)
    for (const end of asked) end()
    test.answer = ({ response }) =>
      void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(usage(15, 100)))
    expect((await refused).filter((is) => !is).length * 115).toBeLessThanOrEqual(1_200)
    expect(peak).toBeLessThanOrEqual(10)
    const [after] = await budgets()
    expect(after!.tokens.used).toBeLessThanOrEqual(1_200)
    expect(after!.tokens.reserved).toBe(0)
  })

  // Two processes that each know their own calls only would spend the budget twice.
  it('is never exceeded by two processes, and holds the reservations of one that crashes', async () => {
    const limit = 50_000
    await open({
      budgets: [
        { ...shared, tokens: limit },
        { ...shared, name: 'all', tokens: 2 * limit },
      ],
    })
    const { deps, services, clock } = test.service
    const { key } = await test.service.createKey('agent', ['bot'])
    await test.service.call('POST', '/api/heartbeat', { key, body: { instance_id: 'bot', name: 'Bot' } })
    await test.service.call('PUT', '/api/instances/bot/tags', { body: { tags: ['team:ads'] } })
    const env = { WARDLINE_GATEWAY_PORT: '0', WARDLINE_GATEWAY_FILE: deps.config.gatewayFile! }
    await using second = await openTestService({ env, dataDir: deps.config.dataDir, clock })
    const seed = Date.now()
    let state = seed % 2_147_483_647
    const random = (below: number) => {
      state = (state * 48_271) % 2_147_483_647
      return state % below
    }
    let charged = 0
    let refused = 0
    let left = 0
    await Promise.all(
      Array.from({ length: 200 }, async (_, place) => {
        const { modelBudgets } = place % 2 === 0 ? services : second.services
        for (let round = 0; round < 5; round++) {
          const tokens = 1 + random(2_000)
          const reservation = await modelBudgets.reserve('bot', { tokens, nanoUsd: 0 }).catch((fault) => {
            expect(fault, `seed ${seed}`).toMatchObject({ code: 'quota_exceeded' })
          })
          if (!reservation) {
            refused += 1
            continue
          }
          // Reading after each would take all connections of PostgreSQL.
          const [row] = place % 20 === 0 ? await modelBudgets.list() : []
          if (row) expect(row!.tokens.used + row!.tokens.reserved, `seed ${seed}`).toBeLessThanOrEqual(limit)
          // As after a crash: nothing settles it.
          if (place === 0 && left === 0) {
            left = tokens
            continue
          }
          const used = random(tokens)
          charged += used
          await modelBudgets.settle(reservation, { tokens: used, nanoUsd: 0 })
        }
      }),
    )
    expect(refused, `seed ${seed}`).toBeGreaterThan(0)
    for (const { tokens } of await budgets())
      expect(tokens, `seed ${seed}`).toMatchObject({ used: charged, reserved: left })
    const usedUp = (await eventsOf('budget_used_up')).filter(({ metadata }) => metadata?.budget === 'ads')
    expect(usedUp).toHaveLength(1)
    expect((await eventsOf('budget_warning')).length).toBeLessThanOrEqual(2)
  })
})
