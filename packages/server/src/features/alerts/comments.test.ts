import { type Alert, type AlertDetail, limits } from '@wardline/contract'
import { beforeEach, expect, it, onTestFinished } from 'vitest'
import { migrate } from '../../db/migrate.ts'
import { adminKey, openTestDatabase, openTestService, type TestService } from '../../testing/service.ts'
import { forgetOldAlerts } from './alerts.ts'
import { listComments } from './comments.ts'

let service: TestService
let alert: string
beforeEach(async () => {
  const opened = await openTestService()
  service = opened
  onTestFinished(() => opened[Symbol.asyncDispose]())
  const body = { severity: 'critical', source: 'x', event_type: 'policy_violation', description: 'x', instance_id: 'a' }
  alert = (await service.call<{ id: string }>('POST', '/api/events', { body })).body.id
})

const comment = (text: unknown, key?: string, id = alert) =>
  service.call<{ id: string; error: string }>('POST', `/api/alerts/${id}/comments`, {
    body: { text },
    ...(key === undefined ? {} : { key }),
  })
const remove = (id: string, key: string) => service.call('DELETE', `/api/alert-comments/${id}`, { key })
const comments = async (key?: string) =>
  (await service.call<AlertDetail>('GET', `/api/alerts/${alert}`, key === undefined ? {} : { key })).body.comments

it('a comment has author, time and text, also after the key of its author was rotated', async () => {
  const operator = await service.createKey('operator')
  expect((await comment(' Looked at it:\nit was the nightly job. ', operator.key)).status).toBe(201)
  service.clock.advance(1_000)
  const rotated = await service.call<{ key: string }>('POST', `/api/keys/${operator.id}/rotate`, { body: {} })
  expect((await comment('It was.', rotated.body.key)).status).toBe(201)
  const at = (since: number) => new Date(service.clock.now() + since).toISOString()
  const by = { author: operator.id, author_name: expect.stringMatching(/\S/), own: true, deleted_by_name: null }
  expect(await comments(rotated.body.key)).toEqual([
    { ...by, id: expect.any(String), at: at(-1_000), text: 'Looked at it:\nit was the nightly job.' },
    { ...by, id: expect.any(String), at: at(0), text: 'It was.' },
  ])
  expect(await comments()).toMatchObject([{ own: false }, { own: false }])
})

it('a change adds its comment to the alert that it names, and an alert that expires takes its comments along', async () => {
  const change = { status: 'acknowledged', comment: 'Mine.', whole_group: true }
  expect((await service.call('PATCH', `/api/alerts/${alert}`, { body: change })).status).toBe(200)
  expect(await comments()).toMatchObject([{ text: 'Mine.' }])
  service.clock.advance(400 * 24 * 3_600_000)
  await forgetOldAlerts(service.deps)
  expect(await service.rows('select * from alert_comments')).toEqual([])
})

it('a list of alerts has the number of comments that are not deleted', async () => {
  const count = async () =>
    (await service.call<{ alerts: Alert[] }>('GET', '/api/alerts')).body.alerts[0]!.comment_count
  expect(await count()).toBe(0)
  await comment('one')
  const { body } = await comment('two')
  expect(await count()).toBe(2)
  await remove(body.id, adminKey)
  expect(await count()).toBe(1)
  expect((await service.call<AlertDetail>('GET', `/api/alerts/${alert}`)).body.comment_count).toBe(1)
})

// A viewer must not write what operators read as said by one of them.
it('viewers and agents read or write no comments beyond their scope', async () => {
  const viewer = await service.createKey('viewer')
  const agent = await service.createKey('agent', ['a'])
  const { body } = await comment('x')
  for (const { key } of [viewer, agent]) {
    expect((await comment('x', key)).status).toBe(403)
    expect((await remove(body.id, key)).status).toBe(403)
  }
  expect(await comments(viewer.key)).toMatchObject([{ text: 'x', own: false }])
  expect((await service.call('GET', `/api/alerts/${alert}`, { key: agent.key })).status).toBe(403)
})

it('only its author and admins delete a comment, whose text is then nowhere and whose place stays', async () => {
  const [author, other] = [await service.createKey('operator'), await service.createKey('operator')]
  const secret = 'pasted-by-mistake'
  const own = (await comment(secret, author.key)).body.id
  service.clock.advance(1_000)
  const second = (await comment(secret, author.key)).body.id
  expect((await remove(own, other.key)).status).toBe(403)
  expect((await remove(own, author.key)).status).toBe(200)
  expect((await remove(own, author.key)).status).toBe(200)
  expect((await remove(second, adminKey)).status).toBe(200)
  expect(await comments()).toMatchObject([
    { text: null, author: author.id, deleted_by_name: expect.any(String) },
    { text: null, author: author.id, deleted_by_name: 'WARDLINE_API_KEY' },
  ])
  const audit = await service.call<{ entries: { action: string; target: string }[] }>('GET', '/api/audit')
  expect(audit.text).not.toContain(secret)
  const entries = audit.body.entries.filter(({ target }) => target === alert)
  expect(entries.map(({ action }) => action)).toEqual([
    'alert.comment',
    'alert.comment',
    'alert.comment_delete',
    'alert.comment_delete',
  ])
})

it('hostile texts come back as they are, and what is no text is refused', async () => {
  const hostile = `<img src=x onerror=alert(1)>\u202e\u200b'); drop table alerts; --`
  expect((await comment(hostile)).status).toBe(201)
  expect(await comments()).toMatchObject([{ text: hostile }])
  for (const text of ['', ' \n ', 'x'.repeat(limits.alertComment + 1), 'a\u0000b', '\ud800', 7, null, ['x']]) {
    const answer = await comment(text)
    expect(answer.status, JSON.stringify(text)).toBe(400)
    expect(answer.body.error).toMatch(/text/)
  }
  expect((await comment('x'.repeat(limits.alertComment))).status).toBe(201)
  const unknown = '01a1fea9-26b4-79dd-9384-cdeaa050f1ec'
  expect((await comment('x', undefined, unknown)).status).toBe(404)
  expect((await remove(unknown, adminKey)).status).toBe(404)
})

// A script that comments on each alert of a storm must not make the page of one endless, also not by deleting in between.
it('an alert has a limited number of comments, whatever is deleted and however many arrive together', async () => {
  const first = (await comment('x')).body.id
  await remove(first, adminKey)
  const answers = await Promise.all(Array.from({ length: limits.alertComments + 4 }, () => comment('x')))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(limits.alertComments - 1)
  expect(answers.find(({ status }) => status === 400)?.body.error).toContain('the maximum')
  expect(await comments()).toHaveLength(limits.alertComments)
})

// The one note of an alert has no author: who changed the alert last need not have written it.
it('the note of an alert of an earlier version is a comment after the upgrade', async () => {
  await using opened = await openTestDatabase()
  await migrate(opened.database, 1, 74)
  const columns = 'seq, id, created_at, severity, event_type, source, description, by_service, status, changed_at, note'
  await opened.execute(`insert into alerts (${columns}) values
    (1, 'one', 5, 'critical', 'x', 'x', 'x', 0, 'resolved', 9, 'Load test, '' quoted'),
    (2, 'two', 6, 'warning', 'x', 'x', 'x', 0, 'open', null, 'Ada looks'),
    (3, 'three', 7, 'warning', 'x', 'x', 'x', 0, 'open', 8, null)`)
  await migrate(opened.database, 2)
  const shared = { author: 'unknown', deleted_by: null }
  expect(await opened.rows('select * from alert_comments order by alert_seq')).toEqual([
    { ...shared, id: 'one', alert_seq: 1, at: 9, text: "Load test, ' quoted" },
    { ...shared, id: 'two', alert_seq: 2, at: 6, text: 'Ada looks' },
  ])
  const { db } = opened.database
  expect(await listComments(db, 1, 'unknown-key')).toMatchObject([{ author_name: 'unknown', own: false }])
  // A process of the earlier version may still read its column.
  expect(await opened.rows('select note from alerts where seq = 1')).toEqual([{ note: "Load test, ' quoted" }])
})
