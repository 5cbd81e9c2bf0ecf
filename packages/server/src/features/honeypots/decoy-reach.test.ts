import { decoysHeader } from '@wardline/contract'
import { describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

async function reachOf(service: TestService, instanceId: string, key: string) {
  const beat = await service.call('POST', '/api/heartbeat', { key, body: { instance_id: instanceId, name: 'Bot' } })
  const poll = await service.call('GET', `/api/instances/${instanceId}/status`, { key })
  const again = await service.call('GET', `/api/instances/${instanceId}/status`, {
    key,
    headers: { 'if-none-match': String(poll.headers.etag) },
  })
  expect([beat.status, poll.status, again.status]).toEqual([200, 200, 304])
  const values = new Set([beat, poll, again].map(({ headers }) => headers[decoysHeader]))
  expect(values.size).toBe(1)
  return [...values][0]
}

async function plant(service: TestService, body: object): Promise<string> {
  const answer = await service.call<{ id: string }>('POST', '/api/honeypots', { body })
  expect(answer.status).toBe(201)
  return answer.body.id
}

describe('the response header that says whether decoys can match for an agent', () => {
  it('is none before the first decoy and after the last one is removed', async () => {
    await using service = await openTestService()
    const { key } = await service.createKey('agent', ['bot-1'])
    expect(await reachOf(service, 'bot-1', key)).toBe('none')
    const id = await plant(service, { instanceId: 'bot-1', type: 'file_path', path: '/srv/vault/keys.txt' })
    expect(await reachOf(service, 'bot-1', key)).toBe('some')
    await service.call('DELETE', `/api/honeypots/${id}`)
    expect(await reachOf(service, 'bot-1', key)).toBe('none')
  })

  it('counts paths only for their own instances, and keys for all', async () => {
    await using service = await openTestService()
    const { key } = await service.createKey('agent', ['bot-1'])
    const fleet = await service.createKey('agent', ['bot-*'])
    await plant(service, { instanceId: 'bot-2', type: 'file_path', path: '/srv/vault/keys.txt' })
    expect(await reachOf(service, 'bot-1', key)).toBe('none')
    expect(await reachOf(service, 'bot-1', fleet.key)).toBe('some')
    await plant(service, { instanceId: 'bot-2', type: 'api_key', keyType: 'generic' })
    expect(await reachOf(service, 'bot-1', key)).toBe('some')
  })

  it('is some when decoys are at more instances than are kept in memory', async () => {
    await using service = await openTestService()
    const { key } = await service.createKey('agent', ['bot-1'])
    const { db } = service.deps.database
    const rows = Array.from({ length: 1_001 }, (_, n) => ({
      id: `decoy-${n}`,
      instance_id: `other-${n}`,
      type: 'file_path' as const,
      key_type: null,
      path: `/srv/${n}`,
      is_pattern: 0 as const,
      label: null,
      created_at: 1,
      deleted_at: null,
    }))
    for (let n = 0; n < rows.length; n += 200)
      await db
        .insertInto('honeypots')
        .values(rows.slice(n, n + 200))
        .execute()
    await service.services.decoyChecks.refresh()
    expect(await reachOf(service, 'bot-1', key)).toBe('some')
  })
})
