import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectCount, expectRefusal, fields, isoTime } from './expectations.ts'
import { newInstance, postEvent } from './fleet.ts'
import { type Service, startService, until } from './service.ts'
import type { SeverityCounts, StatusView } from './shapes.ts'

const knownTools = ['code-exec', 'email-send', 'file-read', 'http-request', 'shell-exec', 'web-search']

describe('GET /api/status', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService()
  })
  afterAll(() => service?.stop())

  const status = async () => {
    const answer = await service.call<StatusView>('GET', '/api/status')
    expect(answer.status, answer.text).toBe(200)
    return answer.body
  }

  test('answers instances, stats and toolCalls with their exact fields', async () => {
    await newInstance(service)
    const view = await status()
    expect(fields(view)).toEqual(['instances', 'stats', 'toolCalls'])
    expect(fields(view.stats)).toEqual(['breach', 'critical', 'info', 'warning'])
    expect(fields(view.toolCalls)).toEqual(knownTools)
    for (const count of [...Object.values(view.stats), ...Object.values(view.toolCalls)]) expectCount(count)
    for (const instance of view.instances) {
      expect(fields(instance)).toEqual(['id', 'last_heartbeat', 'name', 'secondsAgo', 'status', 'suspension_reason'])
      expect(['active', 'suspended', 'offline']).toContain(instance.status)
      expect(instance.last_heartbeat).toMatch(isoTime)
      expectCount(instance.secondsAgo)
    }
  })

  test('needs a key', async () => {
    expectRefusal(await service.call('GET', '/api/status', { key: null }), 401)
  })

  test('counts each stored event once, under its severity, as soon as it is acknowledged', async () => {
    const before = (await status()).stats
    const sent: SeverityCounts = { info: 3, warning: 2, critical: 1, breach: 4 }
    for (const [severity, count] of Object.entries(sent) as [keyof SeverityCounts, number][]) {
      await Promise.all(Array.from({ length: count }, () => postEvent(service, { severity })))
    }
    const after = (await status()).stats
    const grown = Object.fromEntries(fields(after).map((key) => [key, after[key as 'info'] - before[key as 'info']]))
    expect(grown).toEqual(sent)
  })

  test('does not count a repeated event with the same Idempotency-Key again', async () => {
    const before = (await status()).stats.critical
    const headers = { 'idempotency-key': `counted-once-${before}-${Date.now()}` }
    for (let index = 0; index < 3; index++) await postEvent(service, { severity: 'critical' }, { headers })
    expect((await status()).stats.critical).toBe(before + 1)
  })

  test('counts tool calls with the three spellings of the tool name in the metadata', async () => {
    const before = (await status()).toolCalls
    await postEvent(service, { event_type: 'tool_call', metadata: { toolName: 'web-search' } })
    await postEvent(service, { event_type: 'tool_call', metadata: { tool: 'file-read' } })
    await postEvent(service, { event_type: 'tool_call', metadata: { tool_name: 'shell-exec' } })
    await postEvent(service, { event_type: 'tool_call', metadata: { toolName: 'shell-exec' } })
    const after = (await status()).toolCalls
    const grown = Object.fromEntries(knownTools.map((tool) => [tool, after[tool]! - before[tool]!]))
    const untouched = { 'code-exec': 0, 'email-send': 0, 'http-request': 0 }
    expect(grown).toEqual({ ...untouched, 'web-search': 1, 'file-read': 1, 'shell-exec': 2 })
  })

  test('counts only events of the type tool_call with a known tool', async () => {
    const before = (await status()).toolCalls
    await postEvent(service, { event_type: 'policy_note', metadata: { toolName: 'web-search' } })
    await postEvent(service, { event_type: 'tool_call', metadata: { toolName: 'teleport' } })
    await postEvent(service, { event_type: 'tool_call', metadata: { toolName: 'constructor' } })
    await postEvent(service, { event_type: 'tool_call', metadata: { toolName: 42 } })
    await postEvent(service, { event_type: 'tool_call' })
    expect((await status()).toolCalls).toEqual(before)
  })

  test('lists suspended instances with their reason and active ones with null', async () => {
    const [calm, stopped] = [await newInstance(service), await newInstance(service)]
    await service.call('POST', `/api/kill/${stopped}`, { body: { reason: 'audit' } })
    const { instances } = await status()
    expect(instances.find((instance) => instance.id === calm)).toMatchObject({
      status: 'active',
      suspension_reason: null,
    })
    const expected = { status: 'suspended', suspension_reason: 'audit' }
    expect(instances.find((instance) => instance.id === stopped)).toMatchObject(expected)
  })

  test('counts the seconds since the last heartbeat upwards', async () => {
    const before = performance.now()
    const id = await newInstance(service)
    const secondsAgo = async () => (await status()).instances.find((instance) => instance.id === id)?.secondsAgo ?? -1
    const first = await secondsAgo()
    expect(first).toBeLessThanOrEqual(Math.ceil((performance.now() - before) / 1_000))
    await until('another second since the heartbeat', secondsAgo, (seconds) => seconds > first, 20_000)
  })
})
