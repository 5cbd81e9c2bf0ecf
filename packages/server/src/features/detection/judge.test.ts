import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

interface Anomaly {
  severity: string
  source: string
  description: string
  instance_id: string
  session_id: string | null
  metadata: Record<string, unknown> & { metric: string; value: number; episode: string; basis: string }
}

let service: TestService
let count = 0
beforeAll(async () => {
  service = await openTestService()
  await teachAll()
})
afterAll(() => service[Symbol.asyncDispose]())

const fiveMinutes = 300_000
const newAgent = () => `agent-${count++}`
const bodyOf = (agent: string | undefined, metrics: Record<string, number> | string, more: object = {}) => ({
  severity: 'info',
  source: 'sdk',
  event_type: 'session_metrics',
  description: typeof metrics === 'string' ? metrics : JSON.stringify(metrics),
  instance_id: agent,
  ...more,
})
const report = (agent: string | undefined, metrics: Record<string, number> | string, more: object = {}, at = service) =>
  at.call<{ error?: string }>('POST', '/api/events', { body: bodyOf(agent, metrics, more) })
async function teach(agent: string, values: Iterable<number>, metric = 'tool_calls_per_5min') {
  for (const value of values) {
    service.clock.advance(fiveMinutes)
    expect((await report(agent, { [metric]: value })).status).toBe(201)
  }
}
const usual = (samples: number) => Array.from({ length: samples }, (_, index) => 4 + (index % 4))
/** Agents that reported 4 to 7 for 25 hours. */
const taught: string[] = []
async function teachAll() {
  taught.push(...Array.from({ length: 10 }, newAgent))
  for (const value of usual(300)) {
    service.clock.advance(fiveMinutes)
    const body = taught.map((agent) => bodyOf(agent, { tool_calls_per_5min: value, shell_exec_count: value }))
    expect((await service.call('POST', '/api/events/batch', { body })).status).toBe(200)
  }
}
const taughtAgent = () => taught.pop()!
const eventsOf = async (agent: string, type: string) =>
  (
    await service.call<{ events: Anomaly[] }>('GET', `/api/events?instance_id=${agent}&event_type=${type}`)
  ).body.events.toReversed()
const anomalies = (agent: string) => eventsOf(agent, 'anomaly_detected')
const endings = (agent: string) => eventsOf(agent, 'anomaly_ended')
const baselineOf = async (agent: string, metric = 'tool_calls_per_5min') =>
  (
    await service.call<{ baselines: { metric: string; samples: number; basis: string; mean: number }[] }>(
      'GET',
      `/api/instances/${agent}/baselines`,
    )
  ).body.baselines.find((baseline) => baseline.metric === metric)
const samples = async (agent: string) => (await baselineOf(agent))?.samples ?? 0

describe('detection', () => {
  it('reports nothing before an agent has ten samples', async () => {
    const agent = newAgent()
    await teach(agent, [...usual(9), 5_000])
    expect(await anomalies(agent)).toEqual([])
  })

  it('reports only a gross runaway while a young baseline has no fleet to compare with', async () => {
    const agent = newAgent()
    await teach(agent, [...usual(20), 60])
    expect(await anomalies(agent)).toEqual([])
    await teach(agent, [900])
    const [found, ...others] = await anomalies(agent)
    expect(others).toEqual([])
    expect(found).toMatchObject({ severity: 'critical', metadata: { value: 900, basis: 'none', p: null } })
    expect(found!.description).toBe(
      'tool_calls_per_5min is 900 in 5 min; its first 21 samples reached 60, and there is no fleet to compare it with',
    )
  })

  it('warns of two high samples in a row, escalates to critical once and reports the end', async () => {
    const agent = taughtAgent()
    await teach(agent, [22])
    expect(await anomalies(agent)).toEqual([])
    await teach(agent, [6, 22, 22, 22, 400, 400])
    expect((await anomalies(agent)).map(({ severity }) => severity)).toEqual(['warning', 'critical'])
    expect(new Set((await anomalies(agent)).map(({ metadata }) => metadata.episode)).size).toBe(1)
    await teach(agent, usual(11))
    expect(await endings(agent)).toEqual([])
    await teach(agent, usual(2))
    const [ended, ...others] = await endings(agent)
    expect(others).toEqual([])
    expect(ended).toMatchObject({
      severity: 'info',
      source: 'wardline',
      metadata: { outcome: 'over', peak: 400, samples: 4, duration_seconds: 900 },
    })
    expect(ended!.description).toBe('tool_calls_per_5min is as usual again; the anomaly lasted 15 min and reached 400')
    expect(ended!.metadata.episode).toBe((await anomalies(agent))[0]!.metadata.episode)
  })

  it('explains an anomaly with the usual range, the highest value and the statistics', async () => {
    const agent = taughtAgent()
    await teach(agent, [5], 'shell_exec_count')
    service.clock.advance(fiveMinutes)
    await report(agent, { shell_exec_count: 5_000 }, { session_id: 's-1' })
    const [found] = await anomalies(agent)
    expect(found).toMatchObject({ source: 'wardline', instance_id: agent, session_id: 's-1', severity: 'critical' })
    expect(found!.description).toBe(
      'shell_exec_count is 5000 in 5 min; 9 of 10 samples are 4 to 7, the highest in 30 days was 7',
    )
    expect(found!.metadata).toMatchObject({
      metric: 'shell_exec_count',
      value: 5_000,
      samples: 301,
      mean: expect.closeTo(5.5, 2),
      deviation: expect.closeTo(1.12, 2),
      z: expect.closeTo((5_000 - 5.5) / 1.12, -2),
      usual: { low: 4, high: 7 },
      highest: 7,
      peak: 5_000,
      basis: 'own',
    })
    expect(found!.metadata.p).toBeLessThan(1e-8)
  })

  // Otherwise an attacker makes an attack look usual by repeating it.
  it('learns from an anomaly that lasted 16 hours but not after 8, and reports that the new level is accepted', async () => {
    const agent = taughtAgent()
    await teach(agent, new Array<number>(100).fill(12))
    expect(await samples(agent)).toBe(300)
    expect((await baselineOf(agent))!.mean).toBeLessThan(6)
    await teach(agent, new Array<number>(100).fill(12))
    expect(await anomalies(agent)).toHaveLength(1)
    expect(await endings(agent)).toMatchObject([{ metadata: { outcome: 'accepted' } }])
    expect((await endings(agent))[0]!.description).toContain('new level accepted')
    expect((await baselineOf(agent))!.mean).toBeGreaterThan(8)
  })

  it('never learns a level far above the alarm on its own', async () => {
    const agent = taughtAgent()
    await teach(agent, new Array<number>(400).fill(2_000))
    expect(await anomalies(agent)).toHaveLength(1)
    expect(await endings(agent)).toEqual([])
    expect((await baselineOf(agent))!.mean).toBeLessThan(7)
  })

  it('ends the anomaly of an agent that has not reported for two hours', async () => {
    const agent = taughtAgent()
    await teach(agent, [900])
    service.clock.advance(7_199_999)
    await service.services.baselines.endSilent()
    expect(await endings(agent)).toEqual([])
    service.clock.advance(1)
    await service.services.baselines.endSilent()
    await service.services.baselines.endSilent()
    expect(await endings(agent)).toMatchObject([{ metadata: { outcome: 'silent', peak: 900 } }])
  })

  it('judges each instance and each metric separately', async () => {
    const [first, second] = [taughtAgent(), newAgent()]
    await teach(second, [5_000])
    await teach(first, [5_000], 'another_metric')
    expect([...(await anomalies(first)), ...(await anomalies(second))]).toEqual([])
    await teach(first, [5_000])
    expect(await anomalies(first)).toHaveLength(1)
    expect(await anomalies(second)).toEqual([])
  })

  it('judges concurrent reports of one instance one after the other', async () => {
    const agent = taughtAgent()
    service.clock.advance(fiveMinutes)
    await Promise.all(new Array<number>(8).fill(300).map((value) => report(agent, { tool_calls_per_5min: value })))
    expect(await anomalies(agent)).toHaveLength(1)
    const young = newAgent()
    await Promise.all([...new Array<number>(10).fill(5), 500].map((value) => report(young, { n: value })))
    expect(await anomalies(young)).toHaveLength(1)
  })

  it('learns the same from a batch as from single reports', async () => {
    const [agent, single] = [newAgent(), newAgent()]
    const body = usual(12).map((value) => bodyOf(agent, { tool_calls_per_5min: value }))
    expect((await service.call<{ ok: boolean }>('POST', '/api/events/batch', { body })).body.ok).toBe(true)
    for (const value of usual(12)) await report(single, { tool_calls_per_5min: value })
    const learnt = await baselineOf(agent)
    expect(learnt).toMatchObject({ samples: 12, mean: expect.closeTo(5.5, 9) })
    expect(await baselineOf(single)).toEqual(learnt)
  })

  it('stores metrics that name no instance, and does not judge them', async () => {
    for (let time = 0; time < 12; time++) expect((await report(undefined, { alone: time * 1_000 })).status).toBe(201)
    expect(await service.rows(`select * from baselines where metric = 'alone'`)).toEqual([])
  })

  // Otherwise an agent could fill the database by sending new metric names with every report.
  it('stores at most 200 baselines per instance, each of at most 1 KiB', async () => {
    const agent = newAgent()
    for (let turn = 0; turn < 5; turn++) {
      await report(agent, Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`m${turn}_${index}`, 1])))
    }
    const rows = await service.rows<{ state: string }>(`select state from baselines where instance_id = '${agent}'`)
    expect(rows).toHaveLength(200)
    const [{ longest } = { longest: 0 }] = await service.rows<{ longest: number }>(
      'select max(length(state)) as longest from baselines',
    )
    expect(longest).toBeLessThanOrEqual(1_024)
  })

  it('refuses invalid metrics with 400 and learns nothing from them', async () => {
    const agent = newAgent()
    for (const description of ['not json', '[]', '{"a":"1"}', '{"a":1e999}', '{"__proto__":1}']) {
      const { status, body } = await report(agent, description)
      expect(status).toBe(400)
      expect(body.error).toContain('The description of session_metrics')
    }
    expect(await samples(agent)).toBe(0)
  })

  // The report and the alarm are written in one transaction: a crash cannot keep the report and lose the alarm.
  it('stores the report, the anomaly and the baseline together or not at all', async () => {
    const agent = taughtAgent()
    service.clock.advance(fiveMinutes)
    const allow = await service.refuse('update', 'baselines')
    expect((await report(agent, { tool_calls_per_5min: 5_000, third: 9 })).status).toBe(500)
    expect((await report(newAgent(), { other: 9 })).status).toBe(201)
    await allow()
    const rows = await service.rows<{ count: number }>(
      `select count(*) as count from events where instance_id = '${agent}' and description like '%third%'`,
    )
    expect(rows).toEqual([{ count: 0 }])
    expect(await anomalies(agent)).toEqual([])
    expect(await samples(agent)).toBe(300)
    await report(agent, { tool_calls_per_5min: 5_000 })
    expect(await anomalies(agent)).toHaveLength(1)
  })

  it('counts every report and reports one anomaly when two processes judge one agent', async () => {
    const agent = taughtAgent()
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    for (let turn = 0; turn < 20; turn++) {
      service.clock.advance(fiveMinutes)
      const answers = await Promise.all(
        [service, other, service, other].map((at) => report(agent, { tool_calls_per_5min: 6 }, {}, at)),
      )
      expect(answers.map(({ status }) => status)).toEqual([201, 201, 201, 201])
    }
    // The version counts every report, also those with the same time.
    const [row] = await service.rows<{ version: number }>(`select version from baselines where instance_id = '${agent}'
      and metric = 'tool_calls_per_5min'`)
    expect(Number(row!.version)).toBe(300 + 80)
    service.clock.advance(fiveMinutes)
    await Promise.all([service, other, service, other].map((at) => report(agent, { tool_calls_per_5min: 900 }, {}, at)))
    expect(await anomalies(agent)).toHaveLength(1)
  })
})

describe('young baselines', () => {
  it('use samples of agents of the same type, else of the same tag, else of all, and name which', async () => {
    await using fleet = await openTestService({ clock: service.clock })
    const beat = async (id: string, more: object) => {
      const answer = await fleet.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id, ...more } })
      expect([answer.status, answer.text]).toEqual([200, '{"ok":true}'])
    }
    const tag = (id: string, name: string) => fleet.call('PUT', `/api/instances/${id}/tags`, { body: { tags: [name] } })
    const kinds = { support: 5, coding: 400 }
    for (const [kind, level] of Object.entries(kinds)) {
      for (let agent = 0; agent < 3; agent++) {
        await beat(`${kind}-${agent}`, { agent_type: kind })
        await tag(`${kind}-${agent}`, `team:${kind}`)
        // Two of the coding agents share only their tag with the third.
        if (kind === 'coding' && agent > 0) await beat(`${kind}-${agent}`, { agent_type: `other-${agent}` })
      }
      for (let sample = 0; sample < 108; sample++) {
        fleet.clock.advance(3 * fiveMinutes)
        for (let agent = 0; agent < 3; agent++) {
          await report(`${kind}-${agent}`, { calls: level + (sample % 4) }, {}, fleet)
        }
      }
    }
    await fleet.services.fleetBaselines.refresh(fleet.deps.clock.now())
    const judged = async (id: string, more: object, value: number, given?: string) => {
      await beat(id, more)
      if (given !== undefined) await tag(id, given)
      for (let sample = 0; sample < 2; sample++) {
        fleet.clock.advance(fiveMinutes)
        await report(id, { calls: value }, {}, fleet)
      }
      const { body } = await fleet.call<{ events: Anomaly[] }>(
        'GET',
        `/api/events?instance_id=${id}&event_type=anomaly_detected`,
      )
      return body.events.map(({ metadata, description }) => [metadata.basis, description])
    }
    expect(await judged('new-1', { agent_type: 'support' }, 400)).toMatchObject([
      ['type', expect.stringContaining('9 of 10 samples of agents of the same type are 5 to 8')],
    ])
    expect(await judged('new-2', {}, 9_000, 'team:coding')).toMatchObject([['tag', expect.any(String)]])
    // By a tag that it gives itself, an agent would choose what is usual for it.
    expect(await judged('new-6', { tags: ['team:coding'] }, 9_000)).toMatchObject([['fleet', expect.any(String)]])
    expect(await judged('new-3', {}, 9_000)).toMatchObject([['fleet', expect.any(String)]])
    expect(await judged('new-4', {}, 400)).toEqual([])
    expect(await judged('new-5', { agent_type: 'coding' }, 400)).toEqual([])
  })
})
