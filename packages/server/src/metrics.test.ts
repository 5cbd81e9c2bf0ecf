import { endpoints } from '@wardline/contract'
import { describe, expect, it } from 'vitest'
import { openTestService } from './testing/service.ts'

/** Returns the samples of an exposition: names and labels without values. */
const samplesOf = (text: string) =>
  text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => line.replace(/ [^ ]+$/, ''))

describe('/metrics', () => {
  it('uses the Prometheus text format, with the product name as prefix', async () => {
    await using service = await openTestService()
    const { headers, text, status } = await service.call('GET', '/metrics', { key: null })
    expect(status).toBe(200)
    expect(headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8')
    const names = [...text.matchAll(/^# (?:HELP|TYPE) (\S+)/gm)].map(([, name]) => name!)
    expect(names.length).toBeGreaterThan(10)
    for (const name of names) expect(name).toMatch(/^wardline_[a-z_]+$/)
    for (const sample of samplesOf(text)) expect(sample).toMatch(/^wardline_[a-z_]+(\{([a-z]+="[^"\n]*",?)+\})?$/)
    expect(text.endsWith('\n')).toBe(true)
  })

  // Ids, names or paths of callers as labels would let one caller fill the memory of the service.
  it('has the same number of samples for any number of callers, names and texts', async () => {
    await using service = await openTestService()
    const work = async (turn: string) => {
      const key = (await service.createKey('agent', [`agent-${turn}`])).key
      await service.call('POST', '/api/heartbeat', { key, body: { instance_id: `agent-${turn}`, name: turn } })
      const event = { source: turn, event_type: `type_${turn}`, description: turn, instance_id: `agent-${turn}` }
      for (const severity of ['info', 'warning', 'critical', 'breach', turn]) {
        await service.call('POST', '/api/events', { key, body: { ...event, severity, metadata: { tool: turn } } })
      }
      const metrics = { ...event, severity: 'info', event_type: 'session_metrics', description: `{"${turn}":1}` }
      await service.call('POST', '/api/events', { key, body: metrics })
      await service.call('POST', `/api/kill/agent-${turn}`, { body: { reason: turn } })
      await service.call('POST', `/api/instances/agent-${turn}/ack`, { key, body: { version: 1 } })
      await service.call('POST', `/api/resume/agent-${turn}`)
      await service.call('POST', '/api/honeypots/check/key', { key, body: { key: turn, meta: { tool: turn } } })
      for (const bad of [`bad-${turn}`, key.slice(0, -1), null]) await service.call('GET', '/api/status', { key: bad })
      await service.call('GET', `/nowhere/${turn}`)
      await service.call('GET', `/api/events?q=${turn}`)
      await service.call('GET', '/metrics')
    }
    await work('first')
    const before = samplesOf((await service.call('GET', '/metrics')).text)
    for (let turn = 0; turn < 8; turn++) await work(`turn${turn}`)
    const { text } = await service.call('GET', '/metrics')
    expect(samplesOf(text)).toEqual(before)
    expect(text).not.toContain('turn')
  })

  it('uses the endpoint names of the endpoint table', async () => {
    await using service = await openTestService()
    await service.call('GET', '/api/status')
    await service.call('GET', '/metrics')
    const { text } = await service.call('GET', '/metrics')
    const named = [...text.matchAll(/wardline_http_requests_total\{endpoint="([^"]+)"/g)].map(([, name]) => name!)
    expect(named).toContain('getStatus')
    for (const name of named) expect(Object.keys(endpoints)).toContain(name)
    expect(text).toContain('wardline_http_requests_total{endpoint="getStatus",status="2xx"} 1')
  })
})
