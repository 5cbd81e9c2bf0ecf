import { limits, type ReplyOf } from '@wardline/contract'
import { beforeEach, expect, it, onTestFinished } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'
import { forgetInstances } from './deletion.ts'

let service: TestService
beforeEach(async () => {
  const opened = await openTestService()
  service = opened
  onTestFinished(() => opened[Symbol.asyncDispose]())
  await beat('a')
})

const beat = (id: string) => service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
const write = (text: unknown, key?: string, id = 'a') =>
  service.call<{ note: object | null; error: string }>('PUT', `/api/instances/${id}/note`, {
    body: { text },
    ...(key === undefined ? {} : { key }),
  })
const note = async (key?: string) =>
  (await service.call<ReplyOf<'getInstance'>>('GET', '/api/instances/a', key === undefined ? {} : { key })).body.note
const entries = async () =>
  (await service.call<{ entries: object[] }>('GET', '/api/audit?action=instance.note&target=a')).body.entries

it('a note has author and time, which a rotated key keeps, and an empty text removes it', async () => {
  expect(await note()).toBeNull()
  const operator = await service.createKey('operator')
  const rotated = await service.call<{ key: string }>('POST', `/api/keys/${operator.id}/rotate`, { body: {} })
  const at = new Date(service.clock.now()).toISOString()
  const stored = {
    text: 'Runs at night:\ncall Ada first.',
    author: operator.id,
    author_name: expect.stringMatching(/\S/),
    at,
  }
  const answer = await write(' Runs at night:\ncall Ada first. ', rotated.body.key)
  expect([answer.status, answer.body]).toEqual([200, { ok: true, id: 'a', note: stored }])
  expect(await note()).toEqual(stored)
  service.clock.advance(1_000)
  expect((await write('Other')).body.note).toMatchObject({ text: 'Other', author_name: 'WARDLINE_API_KEY' })
  expect((await write(' \n ', operator.key)).body.note).toBeNull()
  expect(await note()).toBeNull()
  expect(await service.rows('select * from agent_notes')).toEqual([])
})

it('only changes are audited, without the text', async () => {
  const secret = 'pasted-by-mistake'
  for (const text of ['', secret, secret, '', '']) expect((await write(text)).status).toBe(200)
  const by = { author: expect.any(String), at: expect.any(String) }
  expect(await entries()).toMatchObject([
    { before: null, after: by },
    { before: by, after: null },
  ])
  expect((await service.call('GET', '/api/audit')).text).not.toContain(secret)
})

// Operators read a note before they suspend or resume: an agent must not write it.
it('viewers only read notes, and agents do neither', async () => {
  await write('x')
  const [viewer, agent] = [await service.createKey('viewer'), await service.createKey('agent', ['a'])]
  for (const { key } of [viewer, agent]) expect((await write('y', key)).status).toBe(403)
  expect(await note(viewer.key)).toMatchObject({ text: 'x' })
  expect((await service.call('GET', '/api/instances/a', { key: agent.key })).status).toBe(403)
})

it('hostile texts come back as they are, and what is no text is refused', async () => {
  const hostile = `<img src=x onerror=alert(1)>\u202e\u200b'); drop table agent_notes; --`
  expect((await write(hostile)).body.note).toMatchObject({ text: hostile })
  for (const text of ['x'.repeat(limits.agentNote + 1), 'a\u0000b', '\ud800', 7, null, ['x'], undefined]) {
    const answer = await write(text)
    expect(answer.status, JSON.stringify(text)).toBe(400)
    expect(answer.body.error).toMatch(/text/)
  }
  expect((await write('x'.repeat(limits.agentNote))).status).toBe(200)
  expect((await write('x', undefined, 'unknown')).status).toBe(404)
})

// A new agent under the id of a deleted one must not stand under what people knew about the other.
it('a note is deleted with its agent, by people and with time', async () => {
  await write('x')
  expect((await service.call('DELETE', '/api/instances/a')).status).toBe(200)
  await beat('a')
  expect(await note()).toBeNull()
  await write('x')
  service.clock.advance(400 * 24 * 3_600_000)
  await forgetInstances(service.deps)
  expect(await service.rows('select * from instances')).toEqual([])
  expect(await service.rows('select * from agent_notes')).toEqual([])
})

it('of notes that are written together the last one stays', async () => {
  const answers = await Promise.all(['one', 'two', 'three', 'four'].map((text) => write(text)))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  expect(await service.rows('select * from agent_notes')).toHaveLength(1)
  expect(await entries()).toHaveLength(4)
})
