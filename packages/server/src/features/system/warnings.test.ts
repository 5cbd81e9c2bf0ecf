import type { SystemView } from '@wardline/contract'
import { expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

const warnings = async (service: TestService) => (await service.call<SystemView>('GET', '/api/system')).body.warnings
const createLimited = (service: TestService, more: object = {}) =>
  service.call<{ id: string }>('POST', '/api/keys', {
    body: { scope: 'viewer', name: 'x', tags_scope: ['team:a'], ...more },
  })

// A team would rely on a limit that the open stream does not have.
it('warns while the stream needs no key and a key or role is limited to a team', async () => {
  await using service = await openTestService()
  await service.createKey('viewer')
  expect(await warnings(service)).toEqual([])
  const { body } = await createLimited(service)
  expect(await warnings(service)).toEqual([expect.stringContaining('set WARDLINE_STREAM_AUTH=session')])
  await service.call('DELETE', `/api/keys/${body.id}`)
  expect(await warnings(service)).toEqual([])
  const expires_at = new Date(service.clock.now() + 60_000).toISOString()
  await createLimited(service, { expires_at })
  expect(await warnings(service)).toHaveLength(1)
  service.clock.advance(120_000)
  expect(await warnings(service)).toEqual([])
  const mappings = [{ group: 'payments', role: 'operator', tags: ['team:a'] }]
  expect((await service.call('PUT', '/api/roles', { body: { mappings, version: 0 } })).status).toBe(200)
  expect(await warnings(service)).toHaveLength(1)
})

it('does not warn while the stream needs a session', async () => {
  await using service = await openTestService({ env: { WARDLINE_STREAM_AUTH: 'session' } })
  await createLimited(service)
  expect(await warnings(service)).toEqual([])
})
