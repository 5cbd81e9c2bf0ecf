import type { Containment } from '@wardline/contract'
import { describe, expect, test } from 'vitest'
import { mayImprove, unconfirmedText } from './containments.ts'

const partial: Containment = {
  id: '0198c2f4-7a10-7c3e-9d52-0a6f3e8b1c44',
  action: 'suspend',
  state: 'partial',
  reason: 'Leak',
  selector: { all: true },
  tags_scope: null,
  by: 'key',
  by_name: null,
  confirmed_by: null,
  confirmed_by_name: null,
  two_person: false,
  requested: 2,
  changed: 2,
  skipped: 0,
  confirmed: 2,
  proven: 0,
  violated: 0,
  enforcement: { calls: 2, confirmed: 1, failed: 0 },
  missing_count: 0,
  joined: [],
  missing: [],
  requested_at: '2026-01-15T12:00:30.000Z',
  changed_at: '2026-01-15T12:00:30.000Z',
  completed_at: null,
}
const withCalls = (enforcement: Containment['enforcement']) => ({ ...partial, enforcement })

describe('a containment of which every agent confirmed', () => {
  test('is waited for while enforcement points may still confirm', () => {
    expect(mayImprove(partial)).toBe(true)
    expect(mayImprove(withCalls({ calls: 2, confirmed: 1, failed: 1 }))).toBe(false)
    expect(mayImprove({ ...withCalls({ calls: 2, confirmed: 2, failed: 0 }), state: 'complete' })).toBe(false)
    expect(mayImprove({ ...partial, missing_count: 1 })).toBe(false)
  })

  test('names the calls that are not confirmed, and no agent', () => {
    expect(unconfirmedText(partial)).toBe(
      'Not confirmed by 1 call to enforcement points. `wardline enforcement` shows how the points answer.',
    )
  })
})

test('agents and calls that are not confirmed are named together', () => {
  const found = { ...withCalls({ calls: 3, confirmed: 0, failed: 3 }), missing_count: 2 }
  expect(unconfirmedText({ ...found, missing: ['a\u001b[2J'] })).toMatch(
    /^Not confirmed by a[^\u001b]* and 1 more and 3 calls to enforcement points\. They may still be running: /,
  )
})
