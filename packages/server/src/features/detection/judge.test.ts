import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../test-service.ts'

interface Anomaly {
  severity: string
  source: string
  instance_id: string
  session_id: string | null
  metadata: { metric: string; value: number; mean: number; deviation: number; z: number; samples: number }
}

let service: TestService
let count = 0
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())

/** An instance without reports so far. */
const newAgent = () => `agent-${count++}`
const report = (agent: string, metrics: Record<string, number> | string, more: object = {}) =>
  service.call<{ error?: string }>('POST', '/api/events', {
    body: {
      severity: 'info',
      source: 'sdk',
      event_type: 'session_metrics',
      description: typeof metrics === 'string' ? metrics : JSON.stringify(metrics),
      instance_id: agent,
      ...more,
    },
  })
async function teach(agent: string, values: number[], metric = 'tool_calls_per_5min') {
  for (const value of values) expect((await report(agent, { [metric]: value })).status).toBe(201)
}
const anomalies = async (agent: string) =>
  (
    await service.call<{ events: Anomaly[] }>('GET', `/api/events?instance_id=${agent}&event_type=anomaly_detected`)
  ).body.events.toReversed()
const samples = async (agent: string) =>
  (await service.rows<{ samples: number }>(`select samples from metric_baselines where instance_id = '${agent}'`))[0]
    ?.samples ?? 0

/** Mean 100, deviation 10 exactly. */
const usual = [100, 100, 100, 100, 100, 100, 100, 100, 100 + Math.sqrt(450), 100 - Math.sqrt(450)]

describe('detection', () => {
  it('says nothing while fewer than ten samples are known', async () => {
    const agent = newAgent()
    await teach(agent, [...usual.slice(0, 9), 5_000])
    expect(await anomalies(agent)).toEqual([])
  })

  it('warns from three deviations on and is critical from five', async () => {
    const found: unknown[] = []
    for (const value of [129.9, 130.1, 149.9, 150.1]) {
      const agent = newAgent()
      await teach(agent, [...usual, value])
      found.push(...(await anomalies(agent)).map(({ severity, metadata }) => [severity, metadata.value]))
    }
    expect(found).toEqual([
      ['warning', 130.1],
      ['warning', 149.9],
      ['critical', 150.1],
    ])
  })

  it('names the metric, the value, and what it was measured against', async () => {
    const agent = newAgent()
    await teach(agent, usual, 'shell_exec_count')
    await report(agent, { shell_exec_count: 200 }, { session_id: 's-1' })
    const [found] = await anomalies(agent)
    expect(found).toMatchObject({ source: 'wardline', instance_id: agent, session_id: 's-1', severity: 'critical' })
    expect(Object.keys(found!.metadata).toSorted()).toEqual(['deviation', 'mean', 'metric', 'samples', 'value', 'z'])
    expect(found!.metadata).toMatchObject({ metric: 'shell_exec_count', value: 200, samples: 10 })
    expect(found!.metadata.mean).toBeCloseTo(100, 6)
    expect(found!.metadata.deviation).toBeCloseTo(10, 6)
    expect(found!.metadata.z).toBeCloseTo(10, 6)
  })

  // Repeating an attack would otherwise teach the detector that it is usual.
  it('does not learn from an anomaly', async () => {
    const agent = newAgent()
    await teach(agent, usual)
    await teach(agent, new Array<number>(12).fill(400))
    expect(await samples(agent)).toBe(10)
    expect(await anomalies(agent)).toHaveLength(12)
    await teach(agent, [105])
    expect(await samples(agent)).toBe(11)
  })

  it('uses a floor after a constant baseline, so that one more is no alarm', async () => {
    const agent = newAgent()
    await teach(agent, new Array<number>(10).fill(5))
    await teach(agent, [7.9])
    expect(await anomalies(agent)).toEqual([])
    const other = newAgent()
    await teach(other, new Array<number>(10).fill(5))
    await teach(other, [8, 10])
    expect((await anomalies(other)).map(({ severity }) => severity)).toEqual(['warning', 'critical'])
  })

  it('judges each instance and each metric separately', async () => {
    const [first, second] = [newAgent(), newAgent()]
    await teach(first, usual)
    await teach(second, [5_000])
    await teach(first, [5_000], 'another_metric')
    expect([...(await anomalies(first)), ...(await anomalies(second))]).toEqual([])
  })

  it('judges reports of one instance one after the other, however many come at once', async () => {
    const agent = newAgent()
    await Promise.all(usual.map((value) => report(agent, { n: value })))
    expect(await samples(agent)).toBe(10)
    // All but the first few would slip through if each were judged by what was known before the burst.
    await Promise.all(new Array<number>(8).fill(300).map((value) => report(agent, { n: value })))
    expect(await anomalies(agent)).toHaveLength(8)
    const young = newAgent()
    await Promise.all([...new Array<number>(10).fill(5), 500].map((value) => report(young, { n: value })))
    expect(await samples(young)).toBe(10)
    expect(await anomalies(young)).toHaveLength(1)
  })

  it('learns the same from a batch as from single reports', async () => {
    const agent = newAgent()
    const events = usual.map((value) => ({
      severity: 'info',
      source: 'sdk',
      event_type: 'session_metrics',
      description: JSON.stringify({ n: value }),
      instance_id: agent,
    }))
    const { body } = await service.call<{ ok: boolean }>('POST', '/api/events/batch', { body: events })
    expect(body.ok).toBe(true)
    const [row] = await service.rows<{ samples: number; mean: number; m2: number }>(
      `select samples, mean, m2 from metric_baselines where instance_id = '${agent}'`,
    )
    expect(row!.samples).toBe(10)
    expect(row!.mean).toBeCloseTo(100, 9)
    expect(row!.m2).toBeCloseTo(900, 6)
  })

  it('stores metrics without an instance without judging them', async () => {
    for (let time = 0; time < 12; time++) await report('x', { n: time * 1_000 }, { instance_id: undefined })
    expect(await service.rows(`select * from metric_baselines where metric = 'n' and instance_id = 'x'`)).toEqual([])
  })

  // One absurd number while the baseline is young would make every later one look small.
  it('is not blinded for good by a number at the end of the range', async () => {
    const agent = newAgent()
    await teach(agent, [1e308, -1e308, 1e308, 5, 5, 5, 5, 5, 5, 5, 5])
    const [row] = await service.rows<{ mean: number; m2: number }>(
      `select mean, m2 from metric_baselines where instance_id = '${agent}'`,
    )
    expect(Number.isFinite(row!.mean) && Number.isFinite(row!.m2)).toBe(true)
  })

  // An agent could fill the database by inventing a name with every report.
  it('keeps at most 200 baselines of one instance', async () => {
    const agent = newAgent()
    for (let turn = 0; turn < 5; turn++) {
      await report(agent, Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`m${turn}_${index}`, 1])))
    }
    const [{ kept } = { kept: 0 }] = await service.rows<{ kept: number }>(
      `select count(*) as kept from metric_baselines where instance_id = '${agent}'`,
    )
    expect(kept).toBe(200)
  })

  it('refuses metrics that are none, and learns nothing then', async () => {
    const agent = newAgent()
    for (const description of ['not json', '[]', '{"a":"1"}', '{"a":1e999}', '{"__proto__":1}']) {
      const { status, body } = await report(agent, description)
      expect(status).toBe(400)
      expect(body.error).toContain('The description of session_metrics')
    }
    expect(await samples(agent)).toBe(0)
  })

  // The alarm and the report stand in one transaction: no crash can keep the report and lose the alarm.
  it('stores the report, the anomaly and what was learnt together or not at all', async () => {
    const agent = newAgent()
    await teach(agent, usual)
    const allow = await service.refuse('update', 'metric_baselines')
    expect((await report(agent, { tool_calls_per_5min: 500, other: 1 })).status).toBe(201)
    expect((await report(agent, { tool_calls_per_5min: 100, third: 9 })).status).toBe(500)
    await allow()
    const rows = await service.rows<{ count: number }>(
      `select count(*) as count from events where instance_id = '${agent}' and description like '%third%'`,
    )
    expect(rows).toEqual([{ count: 0 }])
    expect(await anomalies(agent)).toHaveLength(1)
  })
})
