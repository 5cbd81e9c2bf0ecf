import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { KeyCreated, Lever } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

let folder: string
let service: TestService
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'wardline-levers-'))
  const secret = 'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY='
  const at = (name: string, more: object) => ({
    name,
    url: 'http://127.0.0.1:1/',
    secret,
    actions: ['suspend'],
    ...more,
  })
  const points = [at('by-id', { instances: ['pointed-*'] }), at('by-tag', { tags: ['env:prod'] })]
  const file = join(folder, 'enforcement.json')
  writeFileSync(file, JSON.stringify(points), { mode: 0o600 })
  service = await openTestService({ env: { WARDLINE_ENFORCEMENT_FILE: file } })
})
afterEach(async () => {
  await service[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

const beat = (id: string, more: object = {}, key?: string) =>
  service.call('POST', '/api/heartbeat', { key, body: { instance_id: id, name: id, ...more } })
const leversOf = async (id: string) =>
  (await service.call<{ levers: Lever[] }>('GET', `/api/instances/${id}`)).body.levers
const kindsOf = async (id: string) => (await leversOf(id)).map(({ kind }) => kind)

describe('the levers of an agent', () => {
  it.each([
    ['plain', {}, ['poll']],
    ['pointed-1', {}, ['enforcement', 'poll']],
    ['tagged', { tags: ['env:prod'] }, ['enforcement', 'poll']],
    ['otherwise-tagged', { tags: ['env:test'] }, ['poll']],
  ])('of %s with %j are %j', async (id, more, kinds) => {
    await beat(id, more)
    expect(await kindsOf(id)).toEqual(kinds)
  })

  it('include its process while a supervisor with its key is heard, with the last suspension that it held', async () => {
    const body = { scope: 'agent', instances: ['held'], supervises: true }
    const { key } = (await service.call<KeyCreated>('POST', '/api/keys', { body })).body
    const supervisor = { processes: 2, isolated: true }
    await beat('held', { supervisor })
    expect(await kindsOf('held')).toEqual(['poll'])
    await beat('held', { supervisor }, key)
    expect(await leversOf('held')).toEqual([
      { kind: 'process', last_proven_at: null },
      { kind: 'poll', last_proven_at: null },
    ])
    await service.call('POST', '/api/kill/held', { body: { reason: 'Leak' } })
    const evidence = { action: 'freeze', processes: 2, left: 0, ms: 3 }
    await service.call('POST', '/api/instances/held/ack', { key, body: { version: 1, supervisor: evidence } })
    const [process] = await leversOf('held')
    expect(process).toEqual({ kind: 'process', last_proven_at: expect.any(String) })
    service.clock.advance(91_000)
    expect(await kindsOf('held')).toEqual(['poll'])
  })

  it('have the last poll that brought a suspension', async () => {
    const { key } = await service.createKey('agent', ['polling'])
    await beat('polling')
    await service.call('POST', '/api/kill/polling', { body: { reason: 'Leak' } })
    await service.call('GET', '/api/instances/polling/status', { key })
    await service.services.suspensionFacts.write()
    expect(await leversOf('polling')).toEqual([{ kind: 'poll', last_proven_at: expect.any(String) }])
  })
})
