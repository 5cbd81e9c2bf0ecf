import type { RuleExplanation } from '@wardline/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openRuleService, type RuleService, shellRule, toolCall } from '../../testing/rule-service.ts'

let service: RuleService
beforeAll(async () => {
  service = await openRuleService()
})
afterAll(() => service[Symbol.asyncDispose]())

const explained = async (query: string) =>
  (await service.call<RuleExplanation>('GET', `/api/rule-matches?${query}`)).body.rules.map(
    ({ id, version, events }) => ({
      id,
      version,
      events: events.map(({ event, matches }) => [event.seq, matches.map(({ field, value }) => `${field} ${value}`)]),
    }),
  )

it('explains the event that completed a firing, those before it, and the event that reports it', async () => {
  const correlation = { type: 'event_count', 'group-by': ['instance_id'], timespan: '1m', condition: { gte: 2 } }
  const id = await service.create(shellRule({ correlation, tests: undefined }))
  await service.report(toolCall('shell-exec'), toolCall('file-read'), toolCall('shell-exec'))
  await service.runRules()
  const [firing] = await service.firings(id)
  const [first, last] = firing!.events.map(({ seq }) => seq)
  const of = (seq: number | undefined) => [seq, ['event_type tool_call', 'tool shell-exec']]
  expect(await explained(`event=${last}`)).toEqual([{ id, version: 1, events: [of(last)] }])
  expect(await explained(`event=${first}`)).toEqual([])
  expect(await explained(`event=${first}&rule=${id}`)).toEqual([{ id, version: 1, events: [of(first)] }])
  const [reported] = (await service.eventsOf('rule_matched')) as unknown as { seq: number }[]
  expect(await explained(`event=${reported!.seq}`)).toEqual([{ id, version: 1, events: [of(first), of(last)] }])
  expect(await explained(`event=${first! + 1}&rule=${id}`)).toMatchObject([{ events: [[first! + 1, []]] }])

  // A firing is explained by the version that fired.
  const changed = shellRule({ title: 'Other', detection: { a: { source: 'x' }, condition: 'a' }, tests: undefined })
  expect((await service.call('PUT', `/api/rules/${id}`, { body: changed })).status).toBe(200)
  expect(await explained(`event=${first}&rule=${id}`)).toEqual([{ id, version: 1, events: [of(first)] }])
  expect((await service.call('GET', '/api/rule-matches?event=99999')).status).toBe(404)
})

it('drafts an exception without storing it', async () => {
  const id = await service.create(shellRule({ tests: undefined }))
  const exception = { who: { instances: ['agent-a'] }, reason: 'Builds', until: '2027-01-31' }
  const drafted = await service.call<{ version: number; before: string; text: string }>(
    'POST',
    `/api/rules/${id}/exception`,
    { body: { exception } },
  )
  expect(drafted).toMatchObject({ status: 200, body: { version: 1 } })
  expect(JSON.parse(drafted.body.text)).toEqual({ ...JSON.parse(drafted.body.before), exceptions: [exception] })
  expect((await service.call<{ version: number }>('GET', `/api/rules/${id}`)).body.version).toBe(1)
  const refused = await service.call<{ error: string }>('POST', `/api/rules/${id}/exception`, {
    body: { filter: { selection: 'shell', fields: { 'no field': 'x' } } },
  })
  expect(refused).toMatchObject({ status: 400, body: { error: expect.stringContaining('Events have no field') } })
})
