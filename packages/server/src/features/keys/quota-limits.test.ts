import { limits } from '@wardline/contract'
import { expect, it } from 'vitest'
import { openTestService } from '../../testing/service.ts'
import { grantAccess, openAccess } from './access-tokens.ts'
import { limitsOf, maxInstances } from './quota-limits.ts'

it('only keys of agents have limits of instances and default quotas, those of a fleet ten times as many', async () => {
  await using service = await openTestService({ env: { WARDLINE_QUOTA_EVENTS: '7' } })
  const { config } = service.deps
  const key = { scope: 'agent', instances: '["bot"]', quotas: null } as const
  expect(limitsOf(key, config).events_per_second).toBe(7)
  expect(limitsOf({ ...key, instances: '["a","bot-*"]' }, config).events_per_second).toBe(70)
  expect(limitsOf({ ...key, quotas: '{"events_per_second":3}' }, config).events_per_second).toBe(3)
  expect(limitsOf({ ...key, scope: 'operator' }, config).events_per_second).toBeNull()
  expect(maxInstances({ scope: 'agent', max_instances: null })).toBe(limits.keyInstances)
  expect(maxInstances({ scope: 'agent', max_instances: 5 })).toBe(5)
  expect(maxInstances({ scope: 'operator', max_instances: null })).toBeNull()
})

// Attack: a command line goes on after its session has ended.
it('an access token ends with its session', async () => {
  await using service = await openTestService()
  const now = service.clock.now()
  const granted = grantAccess(service.deps, { token_hash: 'hash', expires_at: now + 1_000 })
  expect(granted.expiresAt).toBe(now + 1_000)
  expect(openAccess(service.deps, granted.access)).toEqual({ tokenHash: 'hash', expiresAt: now + 1_000 })
  const lasting = grantAccess(service.deps, { token_hash: 'hash', expires_at: now + 10 ** 10 })
  expect(lasting.expiresAt).toBeLessThanOrEqual(now + 3_600_000)
  await using other = await openTestService()
  expect(openAccess(other.deps, granted.access)).toBeUndefined()
})
