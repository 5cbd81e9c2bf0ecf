import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { migrate } from '../../db/migrate.ts'
import { openTestDatabase, openTestService, type TestService } from '../../testing/service.ts'
import { forgetSuspensions } from './suspensions.ts'

const dayMs = 86_400_000

let service: TestService
let bot = ''
let count = 0
beforeAll(async () => {
  service = await openTestService({ env: { WARDLINE_RETENTION_DAYS: '30' } })
})
afterAll(() => service[Symbol.asyncDispose]())
beforeEach(() => {
  bot = `bot-${count++}`
})

const beat = (more: object = {}) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: bot, name: bot, ...more } })
const kill = () => service.call('POST', `/api/kill/${bot}`, { body: { reason: ' Leak ' } })
const resume = () => service.call('POST', `/api/resume/${bot}`)
const rows = () => service.rows(`select * from suspensions where instance_id = '${bot}' order by version`)

describe('the row of a suspension', () => {
  it('is written by the kill and ended by the resume', async () => {
    await beat()
    const requested = service.clock.now()
    await kill()
    expect(await rows()).toMatchObject([
      { version: 1, reason: 'Leak', requested_at: requested, can_acknowledge: 0, resumed_at: null, rule_id: null },
    ])
    service.clock.advance(5_000)
    await resume()
    await beat({ control_version: 2 })
    await kill()
    expect(await rows()).toMatchObject([
      { version: 1, requested_at: requested, resumed_at: requested + 5_000 },
      { version: 3, requested_at: requested + 5_000, resumed_at: null, can_acknowledge: 1 },
    ])
  })

  // An agent that is killed and resumed all day must not fill the database.
  it('is kept during the suspension, and as long as the events of its time', async () => {
    await beat()
    await kill()
    await resume()
    await kill()
    service.clock.advance(29 * dayMs)
    await forgetSuspensions(service.deps)
    expect(await rows()).toHaveLength(2)
    service.clock.advance(2 * dayMs)
    await forgetSuspensions(service.deps)
    expect(await rows()).toMatchObject([{ version: 3, resumed_at: null }])
  })
})

// Timers that the upgrade lost would leave agents suspended, and those it kept apart could not be taken over.
it('has the end of its timer after the upgrade, unless it is over', async () => {
  await using opened = await openTestDatabase()
  await migrate(opened.database, 1, 36)
  const columns = 'instance_id, version, reason, requested_at, can_acknowledge, breaches, breaches_reported'
  await opened.execute(`insert into suspensions (${columns}, resumed_at) values
    ('held', 1, 'Rule', 1, 1, 0, 0, 5), ('held', 3, 'Rule', 7, 1, 0, 0, null), ('person', 1, 'Leak', 7, 1, 0, 0, null),
    ('longer', 1, 'Rule', 7, 1, 0, 0, null)`)
  await opened.execute(`insert into rule_suspensions (instance_id, version, rule_id, seq, ends_at, ended_at) values
    ('held', 1, 'r', 1, 5, 5), ('held', 3, 'r', 2, 50, null), ('longer', 1, 'r', 3, 60, 10)`)
  await migrate(opened.database, 2)
  const read = 'select instance_id, version, ends_at from suspensions order by instance_id, version'
  expect(await opened.rows(read)).toEqual([
    { instance_id: 'held', version: 1, ends_at: null },
    { instance_id: 'held', version: 3, ends_at: 50 },
    { instance_id: 'longer', version: 1, ends_at: null },
    { instance_id: 'person', version: 1, ends_at: null },
  ])
})

it('is created by the upgrade for instances that are suspended at that time', async () => {
  await using opened = await openTestDatabase()
  await migrate(opened.database, 1, 20)
  const columns = `id, name, first_seen_at, last_heartbeat_at, liveness, suspended, suspension_reason, control_version,
    control_changed_at, applied_version, applied_at, kill_result_version, kill_result`
  await opened.execute(`insert into instances (${columns}) values
    ('free', 'Free', 1, 9, 'online', 0, null, 2, 5, 2, 6, null, null),
    ('obeys', 'Obeys', 1, 9, 'online', 1, 'Leak', 3, 7, 3, 8, 3, 'confirmed'),
    ('ignores', 'Ignores', 1, 9, 'online', 1, 'Loop', 1, 7, null, null, null, null)`)
  await migrate(opened.database, 2)
  const read = 'select * from suspensions order by instance_id'
  const unknown = {
    actor: null,
    stored_at: null,
    delivered_at: null,
    silent_at: null,
    resumed_at: null,
    requested_at: 7,
  }
  expect(await opened.rows(read)).toMatchObject([
    { ...unknown, instance_id: 'ignores', version: 1, reason: 'Loop', acknowledged_at: null, can_acknowledge: 0 },
    {
      ...unknown,
      instance_id: 'obeys',
      version: 3,
      acknowledged_at: 8,
      can_acknowledge: 1,
      result_reported: 'confirmed',
    },
  ])
})
