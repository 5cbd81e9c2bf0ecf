import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { allEvents, anEvent, createKey, newInstance } from '../fleet.ts'
import { load, totalStatuses } from '../load.ts'
import { isExternal, needsOwnProcess, type Service, startService, until } from '../service.ts'
import type { Created, CreatedKey } from '../shapes.ts'

const quietAgents = 50
/**
 * At night half a minute of ten thousand requests a second, with the default limit. An ordinary run lowers both, so
 * that a slow machine exceeds the limit too.
 */
const floodEvents = effort(3_000, 300_000)
const eventsPerSecond = effort(50, 500)
const batchEvents = 20

describe.skipIf(isExternal)(isExternal ? needsOwnProcess : 'one key that floods', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService()
  })
  afterAll(() => service?.stop())

  const metric = async (name: string) => {
    const { text } = await service.call('GET', '/metrics')
    return Number(new RegExp(`^${name.replaceAll(/[{}"]/g, '\\$&')} (\\d+)$`, 'm').exec(text)?.[1] ?? 0)
  }

  // A single bound key once caused another agent's breach to be refused in 24 of 25 attempts.
  test('costs only that key, and its refusals are counted exactly', async () => {
    const flooder = await service.call<CreatedKey>('POST', '/api/keys', {
      body: {
        scope: 'agent',
        name: 'flooder',
        instances: ['flooder'],
        quotas: { events_per_second: eventsPerSecond },
      },
    })
    const quiet = await Promise.all(
      Array.from({ length: quietAgents }, async (_, index) => {
        const id = `quiet-${index}`
        return { id, key: await createKey(service, { scope: 'agent', instances: [id] }) }
      }),
    )
    let floods = true
    const event = anEvent({ instance_id: 'flooder' })
    const { key } = flooder.body
    const singles = floodEvents / 2
    const batches = floodEvents / 2 / batchEvents
    const started = performance.now()
    const flood = Promise.all([
      load(service, {
        path: '/api/events',
        key,
        body: JSON.stringify(event),
        connections: 16,
        goesOn: (sent) => sent < singles,
      }),
      load(service, {
        path: '/api/events/batch',
        key,
        body: JSON.stringify(Array.from({ length: batchEvents }, () => event)),
        connections: 4,
        goesOn: (sent) => sent < batches,
      }),
    ]).finally(() => {
      floods = false
    })

    const ids: string[] = []
    const others = quiet.map(async ({ id, key: ownKey }) => {
      do {
        const answer = await service.call<Created>('POST', '/api/events', {
          key: ownKey,
          body: anEvent({ instance_id: id, severity: ids.length % 10 === 0 ? 'breach' : 'info' }),
        })
        expect(answer.status, answer.text).toBe(201)
        ids.push(answer.body.id)
        await pause(100)
      } while (floods)
    })
    const [ofSingles, ofBatches] = await flood
    const seconds = (performance.now() - started) / 1_000
    await Promise.all(others)

    // The flooder itself can still report a breach.
    const breach = await service.call('POST', '/api/events', { key, body: { ...event, severity: 'breach' } })
    expect(breach.status, breach.text).toBe(201)

    expect(ofSingles.withoutRetry + ofBatches.withoutRetry).toBe(0)
    const known = Object.keys(totalStatuses([ofSingles, ofBatches])).map(Number)
    expect(known.filter((status) => ![200, 201, 429, 503].includes(status))).toEqual([])
    const accepted = (ofSingles.statuses[201] ?? 0) + batchEvents * (ofBatches.statuses[200] ?? 0)
    const refused = (ofSingles.statuses[429] ?? 0) + batchEvents * (ofBatches.statuses[429] ?? 0)
    const overload = (ofSingles.statuses[503] ?? 0) + batchEvents * (ofBatches.statuses[503] ?? 0)
    expect(accepted + refused + overload).toBe(floodEvents)
    expect(refused).toBeGreaterThan(0)
    // Its burst, and then its rate.
    expect(accepted + overload).toBeLessThanOrEqual(eventsPerSecond * (10 + seconds + 1))
    expect(await metric('wardline_quota_refusals_total{quota="events_per_second"}')).toBe(refused)

    const isReport = ({ event_type, by_service }: { event_type: string; by_service: boolean }) =>
      event_type === 'quota_exceeded' && by_service
    const reportsWhileUp = (await allEvents(service)).filter(isReport)
    expect(reportsWhileUp.length).toBeLessThanOrEqual(1 + (performance.now() - started) / 60_000)
    // Pending counts are reported before the process exits.
    await service.restart()
    const stored = await allEvents(service)
    const reports = stored.filter(isReport)
    expect(reports.every(({ metadata }) => metadata?.key_id === flooder.body.id)).toBe(true)
    const counts = reports.map(
      ({ metadata }) => (metadata?.refused as Record<string, number> | undefined)?.events_per_second ?? 0,
    )
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(refused)
    const rows = new Set(stored.map(({ id }) => id))
    expect(ids.filter((id) => !rows.has(id))).toEqual([])
    expect(stored.filter(({ instance_id, severity }) => instance_id === 'flooder' && severity === 'info')).toHaveLength(
      accepted,
    )
  })

  // Otherwise one agent key could occupy all streams, and kills of other agents would arrive late.
  test('holds only so many streams, and gets a place again when one ends', async () => {
    const instanceId = await newInstance(service, 'listener')
    const { body } = await service.call<CreatedKey>('POST', '/api/keys', {
      body: { scope: 'agent', name: 'listener', instances: [instanceId], quotas: { streams: 3 } },
    })
    const path = `/api/instances/${instanceId}/control`
    const open = () => service.openStream(path, { key: body.key })
    const streams = [await open(), await open(), await open()]
    expect(streams.map(({ status }) => status)).toEqual([200, 200, 200])
    const refused = await service.call<{ error: string }>('GET', path, { key: body.key })
    expect(refused.status).toBe(429)
    expect(refused.headers).toMatchObject({ 'retry-after': '5', 'x-error-code': 'quota_exceeded' })
    expect(refused.body.error).toContain('3 open streams')
    // A refused request for an unknown instance does not count either.
    const other = await createKey(service, { scope: 'agent', instances: [instanceId] })
    const ofOther = await service.openStream(path, { key: other })
    expect(ofOther.status).toBe(200)
    streams[0]!.close()
    const again = await until(
      'a free place',
      async () => {
        const stream = await open()
        if (stream.status !== 200) stream.close()
        return stream
      },
      ({ status }) => status === 200,
    )
    for (const stream of [...streams, ofOther, again]) stream.close()
  })

  test('gets the places of streams back that could not be opened', async () => {
    const { body } = await service.call<CreatedKey>('POST', '/api/keys', {
      body: { scope: 'agent', name: 'nobody', instances: ['nobody-*'], quotas: { streams: 2 } },
    })
    for (let time = 0; time < 5; time++) {
      const answer = await service.call('GET', '/api/instances/nobody-1/control', { key: body.key })
      expect(answer.status).toBe(404)
    }
  })
})
