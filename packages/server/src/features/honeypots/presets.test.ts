import { type DecoyPreset, type HoneypotCreated, keyTypes } from '@wardline/contract'
import { describe, expect, it } from 'vitest'
import { openTestService } from '../../testing/service.ts'

const presetsOf = async (service: Awaited<ReturnType<typeof openTestService>>) =>
  (await service.call<{ presets: DecoyPreset[] }>('GET', '/api/honeypots/presets')).body.presets

describe('presets of decoys', () => {
  it('include one for every kind of key, each with a different id', async () => {
    await using service = await openTestService()
    const presets = await presetsOf(service)
    expect(presets.flatMap(({ keyType = [] }) => keyType).sort()).toEqual([...keyTypes].sort())
    expect(new Set(presets.map(({ id }) => id)).size).toBe(presets.length)
  })

  // A decoy in a snippet that breaks the key would never match, without any sign of that.
  it('match when planted as described', async () => {
    await using service = await openTestService({ env: { WARDLINE_DECOY_URL: 'https://files.example.com/' } })
    for (const { id, title, type, keyType, path, label, snippet } of await presetsOf(service)) {
      const { body, status, text } = await service.call<HoneypotCreated>('POST', '/api/honeypots', {
        body: { instanceId: 'bot', type, keyType, path, label },
      })
      expect(status, `${title}: ${text}`).toBe(201)
      const planted =
        body.key === undefined ? path!.replace('**', 'unseal/key') : snippet.replaceAll('{{value}}', () => body.key!)
      const check = type === 'api_key' ? ['key', { key: planted }] : ['path', { path: planted }]
      const answer = await service.call('POST', `/api/honeypots/check/${check[0]}`, { body: check[1] })
      expect(answer.body, `${id}: ${planted}`).toEqual({ matched: true })
      const { body: detail } = await service.call<{ hit_count: number }>('GET', `/api/honeypots/${body.id}`)
      expect(detail.hit_count, id).toBe(1)
    }
  })

  it('contain no word that reveals the decoy', async () => {
    await using service = await openTestService()
    for (const { path = '', place, snippet } of await presetsOf(service))
      expect(`${path} ${place} ${snippet}`).not.toMatch(/decoy|canary|honey|trap|wardline|fake|dummy/i)
  })
})

it('returns the time of the first and the last hit of a decoy', async () => {
  await using service = await openTestService()
  const { body } = await service.call<HoneypotCreated>('POST', '/api/honeypots', {
    body: { instanceId: 'bot', type: 'file_path', path: '/srv/old/id_rsa' },
  })
  const details = async () => {
    const list = await service.call<{ honeypots: { details: object }[] }>('GET', '/api/honeypots?include=details')
    const one = await service.call<{ first_hit_at: string | null }>('GET', `/api/honeypots/${body.id}`)
    return { ...list.body.honeypots[0]!.details, first: one.body.first_hit_at }
  }
  expect(await details()).toMatchObject({ first_hit_at: null, last_hit_at: null, first: null })
  const times: string[] = []
  for (let hit = 0; hit < 3; hit++) {
    service.clock.advance(60_000)
    times.push(new Date(service.clock.now()).toISOString())
    await service.call('POST', '/api/honeypots/check/path', { body: { path: '/srv/old/id_rsa' } })
  }
  expect(await details()).toMatchObject({ first_hit_at: times[0], last_hit_at: times[2], first: times[0] })
})
