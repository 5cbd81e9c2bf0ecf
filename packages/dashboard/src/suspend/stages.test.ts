import type { Suspension } from '@wardline/contract'
import { describe, expect, test } from 'vitest'
import { enforcementText, stagesOf, suspensionSentence } from './stages.ts'

const start = Date.parse('2026-11-22T14:00:00.000Z')
const now = start + 20_000
const after = (ms: number) => new Date(start + ms).toISOString()

const suspension = (fields: Partial<Suspension> = {}): Suspension => ({
  version: 1,
  state: 'pending',
  reason: 'r',
  by: 'key',
  by_name: null,
  requested_at: after(0),
  stored_at: after(3),
  published_at: null,
  published_by: null,
  delivered_at: null,
  delivered_by: null,
  delivered_process: null,
  acknowledged_at: null,
  acknowledged_by: null,
  can_acknowledge: true,
  silent_at: null,
  quiet_at: null,
  enforced_at: null,
  enforced_by: null,
  held_processes: null,
  left_processes: null,
  ends_at: null,
  resumed_at: null,
  breaches: 0,
  first_breach_at: null,
  last_breach_at: null,
  rule_id: null,
  event_id: null,
  containment_id: null,
  through: null,
  enforcement: [],
  ...fields,
})
const row = (fields: Partial<Suspension>) =>
  stagesOf(suspension(fields), now, 'then').map(({ name, fact, isDone }) => `${isDone ? '●' : '○'} ${name} ${fact}`)

describe('the stages of a suspension', () => {
  test('show milliseconds since the request, and how they were reached', () => {
    const facts = { published_at: after(4), delivered_at: after(9), delivered_by: 'stream' as const }
    expect(row({ ...facts, acknowledged_at: after(21), acknowledged_by: 'ack', silent_at: after(30_021) })).toEqual([
      '● Requested then',
      '● Stored +3 ms',
      '● Published +4 ms',
      '● Delivered +9 ms, by control stream',
      '● Acknowledged +21 ms',
      '● Silent +30,021 ms',
    ])
  })

  // A stage that was not observed must look neither done nor still to come.
  test('are unknown if a later stage was observed, and otherwise open', () => {
    expect(row({ stored_at: null, acknowledged_at: after(21), acknowledged_by: 'heartbeat' })).toEqual([
      '● Requested then',
      '○ Stored unknown',
      '○ Published unknown',
      '○ Delivered unknown',
      '● Acknowledged +21 ms, by heartbeat',
      '○ Silent not yet',
    ])
    expect(row({}).slice(2)).toEqual([
      '○ Published not yet, 20 s',
      '○ Delivered not yet, 20 s',
      '○ Acknowledged not yet, 20 s',
      '○ Silent not yet',
    ])
    expect(row({ resumed_at: after(10_000) }).at(-1)).toBe('○ Silent unknown')
  })

  test('show that a client cannot acknowledge, and that an agent was active while suspended', () => {
    expect(row({ can_acknowledge: false, delivered_at: after(9), delivered_by: 'poll' }).slice(3)).toEqual([
      '● Delivered +9 ms, by poll',
      '○ Acknowledged this client cannot acknowledge',
      '○ Silent cannot be proven',
    ])
    expect(row({ acknowledged_at: after(21), breaches: 2 }).at(-1)).toBe('○ Silent no: it was active')
  })
})

test.each([
  [
    { enforced_at: after(38), enforced_by: 'supervisor', held_processes: 3, left_processes: 0 },
    '● Held +38 ms, 3 processes, by its supervisor',
  ],
  [{ held_processes: 2, left_processes: 1 }, '○ Held its supervisor cannot hold 1 process'],
  [{ enforced_at: after(9), enforced_by: 'gateway' }, '● Model cut +9 ms, by the gateway'],
] satisfies [Partial<Suspension>, string][])('%j is the stage "%s"', (fields, stage) => {
  expect(row({ acknowledged_at: after(40), ...fields }).at(-2)).toBe(stage)
})

test.each([
  [{ state: 'enforced', enforced_at: after(38) }, 'Held by its supervisor after 38 ms'],
  [{ state: 'pending' }, 'Suspended, not confirmed for 20 s'],
  [{ state: 'unconfirmed' }, 'Suspended, not confirmed for 20 s: it may still be working'],
  [{ state: 'delivered' }, 'Suspended and delivered; this client cannot confirm and may still be working'],
  [{ state: 'quiet' }, 'Suspended, delivered and quiet since; this client cannot confirm, so the stop is not proven'],
  [{ state: 'confirmed', acknowledged_at: after(21) }, 'Suspended, confirmed after 21 ms'],
  [{ state: 'proven', acknowledged_at: after(21) }, 'Proven stopped: confirmed after 21 ms, and silent since'],
  [
    { state: 'violated', breaches: 3, first_breach_at: after(12_000) },
    'Active although suspended: 3 events, the first 12 s after the request',
  ],
] satisfies [Partial<Suspension>, string][])('%j is "%s"', (fields, sentence) => {
  expect(suspensionSentence(suspension(fields), now)).toBe(sentence)
})

test('only a proven suspension is called stopped', () => {
  for (const state of ['pending', 'unconfirmed', 'delivered', 'quiet', 'confirmed', 'violated'] as const) {
    expect(suspensionSentence(suspension({ state }), now)).not.toMatch(/stopped/i)
  }
})

test('an enforcement point is shown as confirmed only once it has confirmed', () => {
  expect(enforcementText({ state: 'confirmed', attempts: 1 })).toBe('confirmed')
  expect(enforcementText({ state: 'pending', attempts: 0 })).toBe('not confirmed yet')
  expect(enforcementText({ state: 'failed', attempts: 3 })).toBe('failed after 3 attempts')
  expect(enforcementText({ state: 'superseded', attempts: 2 })).toBe('not confirmed before the resume')
})
