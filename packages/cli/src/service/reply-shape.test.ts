import { endpoints, StreamMessage } from '@wardline/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { sampleEvents } from '../testing/events.ts'
import { hasShape } from './reply-shape.ts'

const status = endpoints.getStatus.reply
const fleet = {
  instances: [
    {
      id: 'a',
      name: 'A',
      status: 'active',
      last_heartbeat: '2026-11-21T12:00:00.000Z',
      secondsAgo: 1,
      suspension_reason: null,
    },
  ],
  stats: { critical: 0, warning: 0, info: 1, breach: 0 },
  toolCalls: {
    'web-search': 0,
    'file-read': 0,
    'http-request': 0,
    'shell-exec': 0,
    'email-send': 0,
    'code-exec': 0,
  },
}

test('accepts a body of the service, and of a newer service with more fields and values', () => {
  expect(hasShape(status, fleet)).toBe(true)
  expect(hasShape(status, { ...fleet, more: true })).toBe(true)
  expect(hasShape(endpoints.listEvents.reply, { events: Object.values(sampleEvents), next: '12' })).toBe(true)
  expect(
    hasShape(endpoints.listEvents.reply, { events: [{ ...sampleEvents.plain, severity: 'worse' }], next: null }),
  ).toBe(true)
  expect(hasShape(StreamMessage, { type: 'event', data: { ...sampleEvents.plain, seq: null } })).toBe(true)
})

test('rejects a body of another service', () => {
  const { instances: _instances, ...withoutInstances } = fleet
  const wrong = [{}, [], null, 'ok', withoutInstances, { ...fleet, instances: {} }, { ...fleet, instances: [null] }]
  for (const body of wrong) expect(hasShape(status, body), JSON.stringify(body)).toBe(false)
  expect(hasShape(endpoints.getHealth.reply, { ok: 'yes' })).toBe(false)
  expect(hasShape(endpoints.listEvents.reply, { events: [{ ...sampleEvents.plain, seq: '1' }], next: null })).toBe(
    false,
  )
  expect(hasShape(StreamMessage, { type: 'event', data: null })).toBe(false)
})

test('returns a boolean for any JSON', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      for (const endpoint of Object.values(endpoints)) {
        if ('reply' in endpoint) expect(hasShape(endpoint.reply, value)).toBeTypeOf('boolean')
      }
    }),
  )
})
