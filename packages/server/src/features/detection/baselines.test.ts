import { type BaselineDetail, baselineText } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'
import { forgetBaselines } from './baselines.ts'

let service: TestService
let count = 0
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())

interface Baseline {
  metric: string
  basis: string
  samples: number
  usual: { low: number; high: number } | null
  alarm_above: number | null
  episode: string | null
}
interface Episode {
  id: string
  outcome: string | null
  peak: number
  ended_at: string | null
}
interface Detail {
  baseline: Baseline
  episodes: Episode[]
  samples: { at: string; value: number }[]
  replayed: { value: number; severity: string; kind: string }[]
}

const metric = 'calls/5 min'
const path = (agent: string, more = '') => `/api/instances/${agent}/baselines/${encodeURIComponent(metric)}${more}`
async function report(agent: string, ...values: number[]) {
  for (const value of values) {
    service.clock.advance(900_000)
    const body = {
      severity: 'info',
      source: 'sdk',
      event_type: 'session_metrics',
      description: JSON.stringify({ [metric]: value }),
      instance_id: agent,
    }
    expect((await service.call('POST', '/api/events', { body })).status).toBe(201)
  }
}
/** Returns an agent that reported 4 to 7 for 27 hours, then a runaway. */
async function anomalous(): Promise<string> {
  const agent = `agent-${count++}`
  await report(agent, ...Array.from({ length: 108 }, (_, index) => 4 + (index % 4)), 900, 950)
  return agent
}
const view = async (agent: string) => (await service.call<Detail>('GET', path(agent))).body
const endings = async (agent: string) =>
  (
    await service.call<{ events: { description: string; metadata: { outcome: string; episode: string } }[] }>(
      'GET',
      `/api/events?instance_id=${agent}&event_type=anomaly_ended`,
    )
  ).body.events

describe('baselines', () => {
  it('show the usual range, the anomalies, the samples and the reports that a replay of them gives', async () => {
    const agent = await anomalous()
    const detail = await view(agent)
    expect(detail.baseline).toMatchObject({ metric, basis: 'own', samples: 108, usual: { low: 4, high: 7 } })
    expect(detail.baseline.alarm_above).toBeGreaterThan(7)
    expect(detail.episodes).toMatchObject([{ id: detail.baseline.episode, outcome: null, peak: 900, ended_at: null }])
    expect(detail.samples).toHaveLength(110)
    expect(detail.samples.at(-1)).toMatchObject({ value: 950 })
    expect(detail.replayed).toMatchObject([{ value: 900, severity: 'critical', kind: 'began' }])
    const { body } = await service.call<{ baselines: Baseline[]; episodes: Episode[] }>(
      'GET',
      `/api/instances/${agent}/baselines`,
    )
    expect(body).toMatchObject({ baselines: [detail.baseline], episodes: detail.episodes })
  })

  it.each(['🦊'.repeat(100), '/'.repeat(100)])('can be read by the longest name of a metric: %s', async (name) => {
    const agent = `agent-${count++}`
    const description = JSON.stringify({ [name]: 1 })
    const event = { severity: 'info', source: 'sdk', event_type: 'session_metrics', description, instance_id: agent }
    expect((await service.call('POST', '/api/events', { body: event })).status).toBe(201)
    const answer = await service.call('GET', `/api/instances/${agent}/baselines/${encodeURIComponent(name)}`)
    expect(answer, answer.text).toMatchObject({ status: 200, body: { baseline: { metric: name } } })
  })

  // The page said "as usual" of a metric that nothing was judged by.
  it('are used from the time on that their words name, and report what these say until then', async () => {
    const agent = `agent-${count++}`
    const sample = async (value: number) => {
      service.clock.advance(300_000)
      const description = JSON.stringify({ [metric]: value })
      const body = { severity: 'info', source: 'sdk', event_type: 'session_metrics', description, instance_id: agent }
      expect((await service.call('POST', '/api/events', { body })).status).toBe(201)
    }
    const words = async () => {
      const { baseline } = (await service.call<BaselineDetail>('GET', path(agent))).body
      return baselineText(baseline, service.clock.now(), 'utc')
    }
    const start = service.clock.now() + 300_000
    const end = Math.ceil((start + 86_400_000) / 60_000) * 60_000
    const [hour] = new Date(end).toISOString().slice(11).split('.')
    const until = new RegExp(`until (tomorrow|today) ${hour?.slice(0, 5)} UTC; `)
    for (let index = 0; index < 8; index++) await sample(5)
    await sample(1_000_000)
    expect(await words()).toMatch(/^learning: 9 of 100 samples, and at least until .*; nothing is reported before 10 s/)
    expect((await view(agent)).episodes).toEqual([])
    for (let index = 0; index < 120; index++) await sample(5 + (index % 2))
    expect(await words()).toMatch(until)
    expect(await words()).toMatch(/^learning until .*; meanwhile only very large deviations are reported$/)
    service.clock.advance(end - 60_000 - service.clock.now())
    expect(await words()).toMatch(until)
    service.clock.advance(60_000)
    expect(await words()).toBe('judged against its own samples')
  })

  it('accept a new level from an operator, which ends the anomaly and is written to the audit log', async () => {
    const agent = await anomalous()
    const { episode } = (await view(agent)).baseline
    expect((await service.call('POST', path(agent, '/accept'))).body).toEqual({ ok: true })
    expect(await endings(agent)).toMatchObject([
      { description: expect.stringContaining('new level accepted'), metadata: { outcome: 'accepted', episode } },
    ])
    const { baseline, episodes } = await view(agent)
    expect(baseline).toMatchObject({ episode: null, usual: { high: expect.closeTo(925, -2) } })
    expect(episodes).toMatchObject([{ id: episode, outcome: 'accepted', peak: 950 }])
    await report(agent, 940, 930)
    expect((await view(agent)).baseline.episode).toBeNull()
    const audit = await service.call<{ entries: { target: string; after: { usual: unknown } }[] }>(
      'GET',
      '/api/audit?action=baseline.accept&order=newest',
    )
    expect(audit.body.entries[0]).toMatchObject({ target: `${agent} ${metric}`, after: { usual: { low: 4 } } })
    const again = await service.call<{ error: string }>('POST', path(agent, '/accept'))
    expect([again.status, again.body.error]).toEqual([400, `"${metric}" of ${agent} has no open anomaly to accept.`])
  })

  it('are learnt again after an operator resets them', async () => {
    const agent = await anomalous()
    expect((await service.call('POST', path(agent, '/reset'))).status).toBe(200)
    expect(await endings(agent)).toMatchObject([{ metadata: { outcome: 'reset' } }])
    expect((await view(agent)).baseline).toMatchObject({ basis: 'none', samples: 0, usual: null, episode: null })
    await report(agent, 900, 900)
    expect((await view(agent)).baseline).toMatchObject({ samples: 2, episode: null })
    expect((await service.call('POST', path(agent, '/reset'))).status).toBe(200)
    expect(await endings(agent)).toHaveLength(1)
  })

  it('require the operator scope to accept or reset, and refuse the agent scope to read', async () => {
    const agent = await anomalous()
    for (const [scope, status] of [
      ['agent', 403],
      ['viewer', 403],
      ['operator', 200],
    ] as const) {
      const { key } = await service.createKey(scope)
      const answer = await service.call('POST', path(agent, scope === 'operator' ? '/accept' : '/reset'), { key })
      expect([scope, answer.status]).toEqual([scope, status])
    }
    const { key } = await service.createKey('agent')
    expect((await service.call('GET', path(agent), { key })).status).toBe(403)
    expect((await service.call('POST', path(agent, '/accept'), { key: null })).status).toBe(401)
  })

  it('of an unknown agent return 404, and their list is empty', async () => {
    for (const [method, more] of [
      ['GET', ''],
      ['POST', '/accept'],
      ['POST', '/reset'],
    ] as const) {
      expect((await service.call(method, path('agent-unknown', more))).status).toBe(404)
    }
    expect((await service.call('GET', '/api/instances/agent-unknown/baselines')).body).toMatchObject({ baselines: [] })
  })

  it('are deleted with their anomalies between 89 and 91 days after the last report', async () => {
    const agent = await anomalous()
    service.clock.advance(89 * 86_400_000)
    await forgetBaselines(service.deps)
    expect((await view(agent)).episodes).toHaveLength(1)
    service.clock.advance(2 * 86_400_000)
    await forgetBaselines(service.deps)
    expect((await service.call('GET', path(agent))).status).toBe(404)
    expect(await service.rows('select * from baseline_episodes')).toEqual([])
  })
})
