import type { EventRow, Suspension } from '@wardline/contract'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
beforeEach(async () => {
  service = await openTestService()
})
afterEach(() => service[Symbol.asyncDispose]())

const beat = (more: object = {}, key?: string) =>
  service.call('POST', '/api/heartbeat', {
    body: { instance_id: 'bot', name: 'Bot', control_version: 0, ...more },
    ...(key === undefined ? {} : { key }),
  })
const kill = () => service.call('POST', '/api/kill/bot', { body: { reason: 'Leak' } })
const ack = (body: object, key?: string) =>
  service.call('POST', '/api/instances/bot/ack', { body, ...(key === undefined ? {} : { key }) })
const pass = async (seconds: number) => {
  for (let passed = 0; passed < seconds; passed++) {
    service.clock.advance(1_000)
    await service.services.suspensionWatch.run()
  }
}
/** Seconds of the suspensions that reached each stage, and how many did. */
async function stages(): Promise<Record<string, [count: number, seconds: number]>> {
  const { text } = await service.call('GET', '/metrics')
  const read = (figure: string) =>
    new Map(
      [
        ...text.matchAll(new RegExp(`^wardline_suspension_stage_seconds_${figure}\\{stage="(\\w+)"\\} (\\S+)$`, 'gm')),
      ].map(([, stage, value]) => [stage!, Number(value)] as const),
    )
  const sums = read('sum')
  return Object.fromEntries(
    [...read('count')].filter(([, count]) => count > 0).map(([stage, count]) => [stage, [count, sums.get(stage)!]]),
  )
}
const events = async (type: string) =>
  (await service.call<{ events: EventRow[] }>('GET', `/api/events?event_type=${type}`)).body.events
const alerts = (type: string) =>
  service.rows<{ severity: string; description: string; instance_id: string }>(
    `select severity, description, instance_id from alerts where event_type = '${type}'`,
  )
const suspension = async () => {
  await service.services.suspensionFacts.write()
  return (await service.call<{ suspensions: Suspension[] }>('GET', '/api/instances/bot/suspensions')).body
    .suspensions[0]!
}

it('each stage is measured once, in seconds since the kill, and the confirmation is announced', async () => {
  await beat()
  await kill()
  expect(await stages()).toEqual({ stored: [1, 0], published: [1, 0] })
  service.clock.advance(500)
  for (let poll = 0; poll < 2; poll++) await service.call('GET', '/api/instances/bot/status')
  service.clock.advance(1_000)
  for (let times = 0; times < 2; times++) await ack({ version: 1 })
  await pass(32)
  expect(await stages()).toEqual({
    stored: [1, 0],
    published: [1, 0],
    delivered: [1, 0.5],
    acknowledged: [1, 1.5],
    silent: [1, 31.5],
  })
  expect(await alerts('kill_confirmed')).toEqual([
    {
      severity: 'info',
      instance_id: 'bot',
      description: 'The agent confirmed 1.5 seconds after the kill that it stopped.',
    },
  ])
  expect(await events('kill_unconfirmed')).toEqual([])
})

it.each([
  ['not at all', async () => {}, false, 'the suspension was not delivered to it'],
  ['by a poll', () => service.call('GET', '/api/instances/bot/status'), true, 'the suspension was delivered to it'],
  [
    'by the header of an answer',
    async () => {
      const { key } = await service.createKey('agent', ['bot'])
      await beat({}, key)
    },
    true,
    'the suspension was delivered to it only by a header of answers',
  ],
])('an agent that does not confirm is reported once, delivered %s', async (_way, deliver, delivered, sentence) => {
  await beat()
  await kill()
  await deliver()
  await service.services.suspensionFacts.write()
  await pass(70)
  const [event, ...others] = await events('kill_unconfirmed')
  expect(others).toEqual([])
  expect(event).toMatchObject({ severity: 'critical', instance_id: 'bot' })
  expect(event!.description).toMatch(
    new RegExp(
      `^Not confirmed \\d+\\.0 seconds after the kill: the agent is offline, or still working; ${sentence}\\.$`,
    ),
  )
  expect(event!.metadata).toEqual({ version: 1, delivered })
  expect(await alerts('kill_confirmed')).toEqual([])
})

it('what a supervisor holds is measured and shown, and what it could not hold is reported', async () => {
  const created = await service.call<{ key: string }>('POST', '/api/keys', {
    body: { scope: 'agent', instances: ['bot'], supervises: true },
  })
  const { key } = created.body
  await beat()
  await kill()
  service.clock.advance(2_500)
  expect((await ack({ version: 1, supervisor: { action: 'freeze', processes: 2, left: 1, ms: 5 } }, key)).body).toEqual(
    { ok: true },
  )
  expect((await stages()).enforced).toBeUndefined()
  await service.services.ingest.whenIdle()
  expect(await events('supervisor_incomplete')).toMatchObject([
    {
      severity: 'critical',
      description: 'Its supervisor could not hold 1 of 3 processes of the suspended agent.',
      metadata: { version: 1, processes: 2, left: 1 },
    },
  ])
  service.clock.advance(500)
  expect((await ack({ version: 1, supervisor: { action: 'freeze', processes: 3, left: 0, ms: 5 } }, key)).body).toEqual(
    { ok: true },
  )
  expect((await stages()).enforced).toEqual([1, 3])
  expect(await suspension()).toMatchObject({ held_processes: 3, left_processes: 0 })
})
