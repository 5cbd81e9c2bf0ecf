import type { AlertCounts, AlertDetail } from '@wardline/contract'
import { limits } from '@wardline/contract'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'
import { localActor, recordAction } from '../audit/audit.ts'

let service: TestService
beforeEach(async () => {
  const opened = await openTestService({ env: { ALERT_WEBHOOK_URL: 'http://127.0.0.1:9/hook' } })
  service = opened
  onTestFinished(() => opened[Symbol.asyncDispose]())
})

async function report(severity: string, instance_id: string): Promise<string> {
  const body = { severity, source: 'test', event_type: 'policy_violation', description: 'x', instance_id }
  const { status, text, body: stored } = await service.call<{ id: string }>('POST', '/api/events', { body })
  expect(status, text).toBe(201)
  return stored.id
}
const change = (id: string, body: object, key?: string) =>
  service.call('PATCH', `/api/alerts/${id}`, { body, ...(key === undefined ? {} : { key }) })
const detail = async (id: string) => (await service.call<AlertDetail>('GET', `/api/alerts/${id}`)).body
const counts = async (query = '') => (await service.call<AlertCounts>('GET', `/api/alert-counts${query}`)).body

describe('counts of alerts', () => {
  it('are grouped by status and severity, and respect the filters', async () => {
    const first = await report('critical', 'agent-1')
    await report('critical', 'agent-2')
    await report('breach', 'agent-2')
    await change(first, { status: 'acknowledged', assignee: 'me' })
    const all = await counts()
    expect(all.complete).toBe(true)
    expect(all.counts).toHaveLength(3)
    expect(all.counts).toContainEqual({ status: 'acknowledged', severity: 'critical', count: 1 })
    expect(await counts('?instance_id=agent-2')).toMatchObject({ counts: [{ count: 1 }, { count: 1 }] })
    expect((await counts('?assigned=me')).counts).toEqual([{ status: 'acknowledged', severity: 'critical', count: 1 }])
    const { body } = await service.call<{ alerts: { id: string }[] }>('GET', '/api/alerts?assigned=me')
    expect(body.alerts.map(({ id }) => id)).toEqual([first])
  })

  it('are empty without alerts', async () => {
    expect(await counts()).toEqual({ counts: [], complete: true })
  })

  // A dashboard requests the counts every few seconds, so their cost must not grow with the history.
  it('omit old resolved alerts and are marked as incomplete, but include an old open alert', async () => {
    await change(await report('critical', 'agent-1'), { status: 'resolved' })
    await report('breach', 'agent-1')
    await service.deps.database.db
      .updateTable('counters')
      .set({ value: limits.countedAlerts + 5 })
      .where('name', '=', 'alert_seq')
      .execute()
    await report('critical', 'agent-2')
    expect(await counts()).toEqual({
      counts: expect.arrayContaining([
        { status: 'open', severity: 'breach', count: 1 },
        { status: 'open', severity: 'critical', count: 1 },
      ]),
      complete: false,
    })
    expect((await counts()).counts).toHaveLength(2)
  })
})

describe('the list of open alerts', () => {
  // A channel for machines may receive every tool call, so thousands of newer alerts must not hide an old open one.
  it('contains an open alert however many alerts are newer', async () => {
    const old = await report('warning', 'agent-1')
    const { db } = service.deps.database
    await db.updateTable('counters').set({ value: 300_000 }).where('name', '=', 'alert_seq').execute()
    await report('info', 'agent-1')
    const list = async (query: string) => {
      const { body } = await service.call<{ alerts: { id: string }[]; next: string | null }>(
        'GET',
        `/api/alerts${query}`,
      )
      return { ids: body.alerts.map(({ id }) => id), next: body.next }
    }
    expect(await list('?status=open&min_severity=warning')).toEqual({ ids: [old], next: null })
    expect(await list('?status=open&severity=warning')).toEqual({ ids: [old], next: null })
    expect(await list('?status=open&severity=breach')).toEqual({ ids: [], next: null })
    expect((await list('?min_severity=warning')).ids).toEqual([])
    expect((await list('?min_severity=warning')).next).not.toBeNull()
    expect(await list('?status=open')).toEqual({ ids: [old], next: null })
  })
})

// With a webhook of default settings each tool call was an open alert.
it('sends events below warning to machines, and leaves none of them open', async () => {
  const ids = [await report('info', 'agent-1'), await report('warning', 'agent-2')]
  await service.services.dispatcher.run()
  await service.services.dispatcher.whenIdle()
  const messages = await service.rows('select outcome from alert_deliveries')
  expect(messages).toEqual([{ outcome: 'sent' }, { outcome: 'sent' }])
  const states = await Promise.all(ids.map(async (id) => (await detail(id)).status))
  expect(states).toEqual(['resolved', 'open'])
})

describe('the history of an alert', () => {
  it('lists each change with its author, newest first', async () => {
    const operator = await service.createKey('operator')
    const id = await report('critical', 'agent-1')
    expect((await detail(id)).history).toEqual([])
    await change(id, { assignee: 'me' })
    service.clock.advance(1_000)
    await change(id, { status: 'resolved', verdict: 'false_positive' }, operator.key)
    const { history } = await detail(id)
    expect(history.map(({ after }) => after)).toEqual([
      { status: 'resolved', verdict: 'false_positive', assignee: 'WARDLINE_API_KEY' },
      { status: 'open', verdict: null, assignee: 'WARDLINE_API_KEY' },
    ])
    expect(history[0]).toMatchObject({ before: { status: 'open', assignee: 'WARDLINE_API_KEY' }, alerts: 1 })
    expect(history.map(({ by }) => by)).toEqual([expect.stringMatching(/\S/), 'WARDLINE_API_KEY'])
  })

  it('contains the number of alerts that were changed together', async () => {
    const [first, second] = [await report('critical', 'agent-1'), await report('critical', 'agent-1')]
    await change(first, { status: 'acknowledged', whole_group: true })
    expect((await detail(first)).history).toMatchObject([{ alerts: 2 }])
    expect(await detail(second)).toMatchObject({ status: 'acknowledged', history: [] })
  })

  // An invalid entry means that the database was edited, which the audit chain detects. The page must still load.
  it('has null for invalid values of an audit entry', async () => {
    const id = await report('critical', 'agent-1')
    const { database, clock } = service.deps
    const after = { status: 'gone', assignee: 7, alerts: 'many' }
    const action = { action: 'alert.change', target: id, before: null, after }
    const nothing = { status: null, verdict: null, assignee: null }
    await database.db
      .transaction()
      .execute((trx) => recordAction(database, trx, localActor('cli'), action, clock.now()))
    expect((await detail(id)).history).toMatchObject([
      { by: 'the command line', before: nothing, after: nothing, alerts: 1 },
    ])
  })
})
