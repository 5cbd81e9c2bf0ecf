import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runCommand } from './command.ts'
import { allEvents, newInstance, postEvent } from './fleet.ts'
import { type Service, startService, until } from './service.ts'
import type { EventRow } from './shapes.ts'

describe('anomaly detection', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService()
  })
  afterAll(() => service?.stop())

  const report = (instanceId: string, metrics: Record<string, number>) =>
    postEvent(service, { instance_id: instanceId, event_type: 'session_metrics', description: JSON.stringify(metrics) })
  const anomalies = async (instanceId: string): Promise<EventRow[]> =>
    (await allEvents(service)).filter((row) => row.event_type === 'anomaly_detected' && row.instance_id === instanceId)
  const anomaliesOnceThereAre = (instanceId: string, count: number) =>
    until(
      `${count} anomalies`,
      () => anomalies(instanceId),
      (rows) => rows.length >= count,
    )
  /** Twelve samples at the mean plus or minus one: standard deviation 1, or slightly more as an estimate. */
  const teach = async (instanceId: string, metric: string, mean = 10) => {
    for (let index = 0; index < 12; index++) await report(instanceId, { [metric]: mean + (index % 2 === 0 ? 1 : -1) })
  }

  test('reports a critical anomaly far outside the baseline, with its figures', async () => {
    const id = await newInstance(service)
    await teach(id, 'tool_calls_per_5min')
    await report(id, { tool_calls_per_5min: 100 })
    const [row, ...others] = await anomaliesOnceThereAre(id, 1)
    expect(others).toEqual([])
    expect(row).toMatchObject({ severity: 'critical', source: 'wardline', instance_id: id })
    const metadata = row?.metadata as Record<string, number>
    expect(metadata).toMatchObject({ metric: 'tool_calls_per_5min', value: 100, samples: 12 })
    expect(metadata.mean).toBeCloseTo(10, 5)
    expect(metadata.deviation).toBeGreaterThanOrEqual(0.99)
    expect(metadata.deviation).toBeLessThanOrEqual(1.06)
    expect(metadata.z).toBeCloseTo(90 / metadata.deviation!, 1)
  })

  // With few samples and no fleet to compare with, only large deviations are reported.
  test('reports nothing that a young baseline does not exclude', async () => {
    const id = await newInstance(service)
    await teach(id, 'shell_exec_count')
    for (const value of [14, 20, 40]) await report(id, { shell_exec_count: value })
    // What is reported last is judged last.
    await report(id, { shell_exec_count: 4_000 })
    const rows = await anomaliesOnceThereAre(id, 1)
    expect(rows.map((row) => (row.metadata as { value: number }).value)).toEqual([4_000])
    expect(rows[0]).toMatchObject({ severity: 'critical', metadata: { metric: 'shell_exec_count', basis: 'none' } })
  })

  test('reports an anomaly once, however long it goes on', async () => {
    const id = await newInstance(service)
    await teach(id, 'http_request_count')
    for (let time = 0; time < 5; time++) await report(id, { http_request_count: 500 })
    await report(id, { other_count: 1 })
    await until(
      'the last report',
      () => allEvents(service),
      (rows) => rows.some((row) => row.instance_id === id && row.description.includes('other_count')),
    )
    expect((await anomalies(id)).map((row) => row.severity)).toEqual(['critical'])
  })

  test('judges a constant baseline by a floor, not by a deviation of zero', async () => {
    const id = await newInstance(service)
    for (let index = 0; index < 12; index++) await report(id, { egress_blocked_count: 5 })
    await report(id, { egress_blocked_count: 5 })
    await report(id, { egress_blocked_count: 500 })
    const rows = await anomaliesOnceThereAre(id, 1)
    expect(rows).toHaveLength(1)
    expect(rows[0]).toMatchObject({ severity: 'critical', metadata: { value: 500 } })
    expect(Number.isFinite((rows[0]!.metadata as { z: number }).z)).toBe(true)
  })

  test('reports nothing before ten samples, and nothing for other instances or metrics', async () => {
    const [young, taught, stranger] = [
      await newInstance(service),
      await newInstance(service),
      await newInstance(service),
    ]
    for (let index = 0; index < 9; index++) await report(young, { unique_tools_used: 10 + (index % 2) })
    await report(young, { unique_tools_used: 10_000 })
    await teach(taught, 'unique_tools_used')
    await report(stranger, { unique_tools_used: 10_000 })
    await report(taught, { avg_response_length: 10_000 })
    // Reports are judged in order: once the anomaly of the last one exists, those of earlier ones would exist too.
    await report(taught, { unique_tools_used: 10_000 })
    const rows = await anomaliesOnceThereAre(taught, 1)
    expect(rows.map((row) => (row.metadata as { metric: string }).metric)).toEqual(['unique_tools_used'])
    expect(await anomalies(young)).toEqual([])
    expect(await anomalies(stranger)).toEqual([])
  })

  test('judges every metric of a report, including unknown ones', async () => {
    const id = await newInstance(service)
    for (let index = 0; index < 12; index++) {
      await report(id, { injection_attempt_count: index % 2, tokens_spent: 1000 + (index % 2), calm: 1 })
    }
    await report(id, { injection_attempt_count: 50, tokens_spent: 90_000, calm: 1 })
    const rows = await anomaliesOnceThereAre(id, 2)
    const metrics = rows.map((row) => (row.metadata as { metric: string }).metric)
    expect(metrics.sort()).toEqual(['injection_attempt_count', 'tokens_spent'])
  })

  test('shows, accepts and resets baselines from the command line', async () => {
    const wardline = async (...args: string[]) => {
      const env = { WARDLINE_URL: service.baseUrl, WARDLINE_KEY: service.key }
      return runCommand(['baselines', ...args], env)
    }
    const id = await newInstance(service)
    await teach(id, 'shell_exec_count')
    await report(id, { shell_exec_count: 4_000 })
    await anomaliesOnceThereAre(id, 1)
    const open = await wardline(id)
    expect(open.code, open.output).toBe(0)
    expect(open.output).toMatch(
      /shell_exec_count .* 13 .*ANOMALY OPEN; learning: 13 of 100 samples, and at least until/,
    )
    expect(open.output).toMatch(/UTC; meanwhile only very large deviations are reported/)
    expect(open.output).toMatch(/CRITICAL.*shell_exec_count up to 4000 {2}open/i)
    const accepted = await wardline('accept', id, 'shell_exec_count')
    expect(accepted.output).toContain(`shell_exec_count of ${id} is accepted as usual.`)
    expect((await wardline(id)).output).toContain('new level accepted')
    expect((await wardline('accept', id, 'shell_exec_count')).code).not.toBe(0)
    expect((await wardline('reset', id, 'shell_exec_count')).code).toBe(0)
    const { body } = await service.call<{ entries: { action: string }[] }>('GET', '/api/audit?action=baseline.*')
    expect(body.entries.map(({ action }) => action)).toEqual(['baseline.accept', 'baseline.reset'])
  })

  test('replays normal traffic and runaways without a service', async () => {
    const { code, output } = await runCommand(['detector', 'simulate', '--agents', '3', '--days', '3', '--json'], {})
    expect(code, output).toBe(0)
    const { kinds } = JSON.parse(output) as { kinds: unknown[] }
    expect(kinds.length).toBeGreaterThan(10)
  })
})
