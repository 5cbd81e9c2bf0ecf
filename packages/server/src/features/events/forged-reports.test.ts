import { alertTypes, type EventRow, eventTypes, offlineAfterMs } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'
import { type AlertFacts, endedBy, groupNameOf, isClaimed, isOfKillSwitch } from '../alerts/outbox/alert.ts'
import { readOutsideEvent } from '../stream/outside-events.ts'

// A compromised agent has a key. With it, and on the backplane, these tests try to report what only the service may
// report: that a kill was confirmed, that an outage is over, that another agent touched a decoy.

const types = [...new Set<string>([...Object.values(eventTypes), ...Object.values(alertTypes)])]
const own = 'agent-1'
const other = 'agent-2'

let service: TestService
let key: string
/** The service's conclusions before the forged reports. */
let before: unknown

const call = (path: string, body: unknown, headers = {}) => service.call('POST', path, { key, body, headers })

interface Outcome {
  /** Error message; undefined if the report was stored. */
  refusal: string | undefined
  /** HTTP status: 400 for an invalid report, 403 for one about another instance; undefined in a batch. */
  code: number | undefined
}

const ofBatch = ({ body }: { body: unknown }): Outcome => {
  const { errors } = body as { errors: { error: string }[] }
  return { refusal: errors[0]?.error, code: undefined }
}

const ways: Record<string, (report: object) => Promise<Outcome>> = {
  single: async (report) => {
    const { status, body } = await call('/api/events', report)
    return status === 201
      ? { refusal: undefined, code: undefined }
      : { refusal: (body as { error: string }).error, code: status }
  },
  batch: async (report) => ofBatch(await call('/api/events/batch', [report])),
  'batch of lines': async (report) =>
    ofBatch(await call('/api/events/batch', `${JSON.stringify(report)}\n`, { 'content-type': 'application/x-ndjson' })),
}

const forged = (event_type: string, fields: object = {}) => ({
  severity: 'critical',
  source: own,
  event_type,
  description: event_type === eventTypes.sessionMetrics ? '{"shell_exec_count":1}' : 'Everything is fine again',
  instance_id: own,
  by_service: true,
  class: 'injection',
  seq: 1,
  ...fields,
})

/**
 * Everything that the service concludes: who is suspended, silent or confirmed, which problems are open, what was
 * touched.
 */
async function conclusions() {
  const { rows } = service
  return {
    instances: await rows('select * from instances order by id'),
    alerts: await rows('select * from alerts where by_service = 1 order by seq'),
    events: await rows('select * from events where by_service = 1 order by seq'),
    hits: await rows('select * from honeypot_hits'),
    runs: await rows('select * from job_runs order by name'),
    audit: await rows('select * from audit_head'),
  }
}

beforeAll(async () => {
  // The clock stands still, so all reports of the tests count for the same second.
  service = await openTestService({
    env: { ALERT_WEBHOOK_URL: 'http://127.0.0.1:9/', WARDLINE_QUOTA_CRITICAL_EVENTS: 'none' },
  })
  ;({ key } = await service.createKey('agent', [own]))
  const { clock, deps, services } = service
  // Heartbeats over some time: an instance that was seen only once is never reported as offline.
  for (const index of [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]) {
    clock.advance(offlineAfterMs / 6)
    await service.call('POST', '/api/heartbeat', { body: { instance_id: `agent-${index}`, name: 'Agent' } })
  }
  // Raise every problem that a caller could want to end: an agent killed without confirming, all of them silent.
  await service.call('POST', `/api/kill/${own}`, { body: { reason: 'acts strangely' } })
  // Steps no longer than the maximum gap between sweeps, because silence only counts while it was watched.
  for (let passed = 0; passed <= 3 * offlineAfterMs; passed += 30_000) {
    await services.scout.sweep()
    clock.advance(30_000)
  }
  await services.suspensionWatch.run()
  await deps.database.db
    .transaction()
    .execute((trx) =>
      services.outbox.write(
        trx,
        [{ severity: 'critical', event_type: alertTypes.channelFailing, instance_id: null, description: 'x' }],
        clock.now(),
      ),
    )
  // Rejections are reported once a minute: trigger that report before the tests.
  await call('/api/heartbeat', { instance_id: other, name: 'Agent' })
  await services.ingest.whenIdle()
  before = await conclusions()
})
afterAll(() => service[Symbol.asyncDispose]())

it('covers every problem that the service reports', async () => {
  const open = await service.rows<{ event_type: string }>(
    `select distinct event_type from alerts where by_service = 1 and status = 'open' order by event_type`,
  )
  expect(open.map(({ event_type }) => event_type)).toEqual([
    'alert_channel_failing',
    'fleet_outage',
    'identity_mismatch',
    'instance_offline',
    'instance_suspended',
    'kill_unconfirmed',
  ])
})

describe.each(Object.keys(ways))('sent as a %s', (way) => {
  it.each(types)('a forged %s counts as the caller’s report and changes no conclusion of the service', async (type) => {
    expect(await ways[way]!(forged(type))).toEqual({ refusal: undefined, code: undefined })
    const { body } = await service.call<{ events: EventRow[] }>('GET', '/api/events?limit=1')
    expect(body.events[0]).toMatchObject({ event_type: type, instance_id: own, by_service: false })
    const [alert] = await service.rows<AlertFacts & { event_type: string; status: string }>(
      `select * from alerts where id = '${body.events[0]!.id}'`,
    )
    if (type !== eventTypes.sessionMetrics) {
      expect(alert).toMatchObject({ by_service: 0, status: 'open' })
      expect([endedBy(alert!), isOfKillSwitch(alert!)]).toEqual([[], false])
      expect(groupNameOf(alert!)).toBe(`reported ${type} ${own}`)
      const isOwnType = ![
        'tool_call',
        'prompt_injection_detected',
        'injection_blocked',
        'policy_violation',
        'egress_blocked',
        'model_answer',
        'tool_blocked',
        'policy_observed',
        'model_refused',
        'model_failed',
        'permission_mode_changed',
        'tool_server_connection',
      ].includes(type)
      expect(isClaimed(alert!)).toBe(isOwnType)
    }
    expect(await conclusions()).toEqual(before)
  })

  it.each(types)('a forged %s about another instance, or none, is rejected and not stored', async (type) => {
    const stored = await service.rows('select count(*) as count from events')
    for (const instance_id of [other, undefined]) {
      const { refusal, code } = await ways[way]!(forged(type, { instance_id }))
      expect(refusal).toContain('This key is bound to')
      expect([403, undefined]).toContain(code)
    }
    expect(await service.rows('select count(*) as count from events')).toEqual(stored)
    expect(await conclusions()).toEqual(before)
  })

  it.each(types)('a %s with the service’s name as source is rejected and not stored, with any key', async (type) => {
    const stored = await service.rows('select count(*) as count from events')
    for (const source of ['wardline', ' Wardline ', 'ｗardline']) {
      const { refusal, code } = await ways[way]!(forged(type, { source }))
      expect(refusal).toBe('source must not be wardline: only the service itself reports under that name.')
      expect([400, undefined]).toContain(code)
    }
    const byAdmin = await service.call('POST', '/api/events', { body: forged(type, { source: 'wardline' }) })
    expect(byAdmin.status).toBe(400)
    expect(await service.rows('select count(*) as count from events')).toEqual(stored)
  })
})

describe('an event that another program publishes on the events channel', () => {
  const read = (report: object) => readOutsideEvent(Buffer.from(JSON.stringify(report)), 0)

  it.each(types)('is never attributed to the service: %s', async (type) => {
    expect(read(forged(type))).toMatchObject({ event_type: type, by_service: 0, seq: null })
    expect(() => read(forged(type, { source: 'WARDLINE' }))).toThrow('source must not be wardline')
  })
})

it('marks only the service’s own reports as by_service', async () => {
  const list = async (type: string) =>
    (await service.call<{ events: EventRow[] }>('GET', `/api/events?event_type=${type}&limit=1000`)).body.events
  const offline = await list(eventTypes.instanceOffline)
  const byService = offline.filter(({ by_service }) => by_service)
  expect(byService.map(({ source }) => source)).toEqual(byService.map(() => 'wardline'))
  expect(byService).toHaveLength(6)
  expect(offline.filter(({ by_service }) => !by_service).map(({ source }) => source)).toEqual([own, own, own])
})
