import type { KeyCreated, SavedView } from '@wardline/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())

type Answer = { id: string; error: string }
const view = (name: string, more: object = {}) => ({ name, screen: 'events', query: 'severity=breach', ...more })
const save = (key: string, body: object) => service.call<Answer>('POST', '/api/views', { key, body })
const replace = (key: string, id: string, body: object) =>
  service.call<Answer>('PUT', `/api/views/${id}`, { key, body })
const remove = (key: string, id: string) => service.call<Answer>('DELETE', `/api/views/${id}`, { key })
const list = async (key?: string) =>
  (await service.call<{ views: SavedView[] }>('GET', '/api/views', key === undefined ? {} : { key })).body.views
const names = async (key?: string) => (await list(key)).map(({ name }) => name)

it('a private view is visible to its owner and admins, a shared view to all keys', async () => {
  const [viewer, operator] = [await service.createKey('viewer'), await service.createKey('operator')]
  await save(viewer.key, view('mine'))
  await save(operator.key, view('ours', { shared: true, query: 'q=%3Cb%3E', screen: 'fleet' }))
  await save(operator.key, view('private'))
  expect(await names(viewer.key)).toEqual(['mine', 'ours'])
  expect(await names(operator.key)).toEqual(['ours', 'private'])
  expect(await names()).toEqual(['mine', 'ours', 'private'])
  expect((await list(viewer.key))[1]).toMatchObject({
    name: 'ours',
    screen: 'fleet',
    query: 'q=%3Cb%3E',
    shared: true,
    owner: 'operator of a test',
    own: false,
  })
  expect((await list(viewer.key))[0]).toMatchObject({ own: true, shared: false })
})

// A viewer key is often used for a wall display or given to outsiders, so it must not change what others see.
it('a viewer must not share views, and a view is only changed by its owner or an admin', async () => {
  const [viewer, operator] = [await service.createKey('viewer'), await service.createKey('operator')]
  expect((await save(viewer.key, view('loud', { shared: true }))).status).toBe(403)
  const { id: shared } = (await save(operator.key, view('shared', { shared: true }))).body
  const { id: hidden } = (await save(operator.key, view('hidden'))).body
  const { id: own } = (await save(viewer.key, view('own'))).body
  expect((await replace(viewer.key, own, view('own', { shared: true }))).status).toBe(403)
  for (const change of [replace, remove]) {
    expect((await change(viewer.key, shared, view('stolen'))).status).toBe(403)
    // A 403 would reveal that the private view exists.
    expect((await change(viewer.key, hidden, view('stolen'))).status).toBe(404)
  }
  expect((await replace(viewer.key, own, view('renamed'))).status).toBe(200)
  expect(await names(viewer.key)).toContain('renamed')
  expect((await remove(viewer.key, own)).status).toBe(200)
  expect((await remove(viewer.key, own)).status).toBe(404)
  expect((await service.call('DELETE', `/api/views/${hidden}`)).status).toBe(200)
  expect(await names(operator.key)).not.toContain('hidden')
})

it('a key keeps its views when it is rotated', async () => {
  const viewer = await service.createKey('viewer')
  await save(viewer.key, view('lasting'))
  const { body } = await service.call<KeyCreated>('POST', `/api/keys/${viewer.id}/rotate`, {
    body: { overlap_seconds: 0 },
  })
  expect((await list(body.key)).filter(({ own }) => own).map(({ name }) => name)).toEqual(['lasting'])
})

it('every change of a view has an audit entry', async () => {
  const operator = await service.createKey('operator')
  const { id } = (await save(operator.key, view('one'))).body
  await replace(operator.key, id, view('two'))
  await remove(operator.key, id)
  const { body } = await service.call<{ entries: object[] }>('GET', `/api/audit?target=${id}`)
  expect(body.entries).toMatchObject([
    { action: 'view.create', actor: operator.id, before: null, after: { name: 'one' } },
    { action: 'view.change', before: { name: 'one' }, after: { name: 'two' } },
    { action: 'view.delete', before: { name: 'two' }, after: null },
  ])
})

it.each([
  [{ name: '' }, 'name must not be empty.'],
  [{ name: 'x'.repeat(81) }, 'name must have at most 80 characters.'],
  [{ screen: 'Events/..' }, 'screen may contain only lower-case letters, digits and -.'],
  [{ query: 'a b' }, 'query may contain only visible ASCII characters, and no spaces.'],
  [{ query: 'x'.repeat(4097) }, 'query must have at most 4096 characters.'],
  [{ shared: 'yes' }, 'shared must be a boolean.'],
  [{ owner: 'me' }, 'owner is not a known field.'],
])('a view with %j is refused', async (wrong, sentence) => {
  const { status, body } = await service.call<Answer>('POST', '/api/views', { body: view('x', wrong) })
  expect([status, body.error]).toEqual([400, sentence])
})

// Without a limit per key, one key could use up the limit of all.
it('views are limited per key and in total, also if many are saved concurrently', async () => {
  await service.execute('delete from views')
  const keys = await Promise.all(Array.from({ length: 5 }, () => service.createKey('viewer')))
  const saveMany = async (key: string, count: number) => {
    // On a busy machine one of so many concurrent requests may get a 503 and must be retried.
    const saveOnce = async (index: number): Promise<number> => {
      const { status } = await save(key, view(`view ${index}`))
      return status === 503 ? saveOnce(index) : status
    }
    const statuses = await Promise.all(Array.from({ length: count }, (_, index) => saveOnce(index)))
    return statuses.filter((status) => status === 201).length
  }
  expect(await saveMany(keys[0]!.key, 55)).toBe(50)
  expect((await save(keys[0]!.key, view('more'))).body.error).toBe(
    'This key has 50 views, the maximum: delete one first.',
  )
  for (const { key } of keys.slice(1, 4)) expect(await saveMany(key, 50)).toBe(50)
  expect((await save(keys[4]!.key, view('more'))).body.error).toBe(
    'There are 200 views, the maximum: delete one first.',
  )
})
