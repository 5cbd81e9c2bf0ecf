import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
/** The tests share one service, so each uses its id as a prefix. */
let bot = ''
let count = 0
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())
beforeEach(async () => {
  bot = `t${count++}-bot`
  await watch(120)
})

const beat = (id = bot) => service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
const execute = (text: string) => service.execute(text)
const toolCall = (id = bot) =>
  service.call('POST', '/api/events', {
    body: { severity: 'info', source: 's', event_type: 'tool_call', description: 'x', instance_id: id },
  })
const ownEvents = () =>
  service.rows<{ event_type: string; instance_id: string; severity: string; description: string }>(
    `select * from events where source = 'wardline' and instance_id like '${bot}%' order by seq`,
  )
const reports = async () =>
  (await ownEvents()).map(({ event_type, instance_id }) => `${instance_id.replace(bot, 'bot')}: ${event_type}`)

/** Advances the clock with a sweep every 30 seconds, the interval of the job. */
async function watch(seconds: number, during: () => Promise<unknown> = async () => {}) {
  for (let passed = 0; passed < seconds; passed += 30) {
    service.clock.advance(30_000)
    await during()
    await service.services.scout.sweep()
  }
}

describe('silence', () => {
  // If one heartbeat in 200 is lost, 36 of 1,000 agents lose two in a row each day.
  it('is reported once, after more than two missing heartbeats', async () => {
    await beat()
    await watch(180)
    expect(await reports()).toEqual([])
    await watch(30)
    expect(await reports()).toEqual(['bot: instance_offline'])
    await watch(300)
    expect(await reports()).toEqual(['bot: instance_offline'])
    expect((await service.call('GET', `/api/instances/${bot}`)).body).toMatchObject({ status: 'offline', silent: true })
    const description = 'No heartbeat for 210 seconds, and no other request; usually one comes every 60 seconds'
    expect(await ownEvents()).toMatchObject([{ severity: 'warning', description }])
  })

  it('is judged by the usual interval of the agent, and never before 90 seconds and a second sweep', async () => {
    const often = async (everyMs: number, times: number) => {
      for (let count = 0; count < times; count++) {
        service.clock.advance(everyMs)
        await beat()
      }
    }
    await beat()
    await often(5_000, 100)
    await watch(90)
    expect(await reports()).toEqual([])
    await watch(30)
    expect(await reports()).toEqual([])
    await watch(30)
    expect(await reports()).toEqual(['bot: instance_offline'])
    // An agent that sends every four minutes is reported until the service has learnt this interval.
    for (let count = 0; count < 12; count++) {
      await watch(240)
      await beat()
      await service.services.scout.sweep()
    }
    const learnt = (await reports()).length
    expect(learnt).toBeLessThan(12)
    for (let count = 0; count < 12; count++) {
      await watch(240)
      await beat()
    }
    expect(await reports()).toHaveLength(learnt)
  })

  // Otherwise an agent could teach the service long intervals and then stop for a night without a report.
  it('is reported within an hour, however long the earlier intervals were', async () => {
    await beat()
    for (let count = 0; count < 40; count++) {
      service.clock.advance(3_600_000)
      await beat()
    }
    await watch(120, () => beat())
    const before = (await reports()).length
    await watch(3_600)
    expect((await reports()).slice(before)).toEqual(['bot: instance_offline'])
  })

  it('is not reported of an agent that polls or reports to any process', async () => {
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    const { key } = await service.createKey('agent', [`${bot}*`])
    const ids = ['-asks', '-reports', '-silent'].map((id) => bot + id)
    await Promise.all(ids.map((id) => beat(id)))
    await other.services.keyring.refresh()
    for (let passed = 0; passed < 600; passed += 30) {
      service.clock.advance(30_000)
      const asked = await other.call('GET', `/api/instances/${bot}-asks/status`, { key })
      expect(asked.status).toBe(200)
      await toolCall(`${bot}-reports`)
      await other.services.scout.sweep()
      await service.services.scout.sweep()
    }
    expect(await reports()).toEqual(['bot-silent: instance_offline'])
    // A poll with the key of a person does not show that the agent is running.
    await watch(300, () => service.call('GET', `/api/instances/${bot}-asks/status`))
    expect(await reports()).toContain('bot-asks: instance_offline')
  })

  it('is not reported after the agent announced that it is leaving, and neither is its return', async () => {
    const goodbye = () =>
      service.call('POST', '/api/heartbeat', { body: { instance_id: bot, name: bot, leaving: true } })
    await beat()
    await goodbye()
    const { body } = await service.call<{ left_at: string }>('GET', `/api/instances/${bot}`)
    expect(Date.parse(body.left_at)).toBe(service.clock.now())
    await watch(600)
    const gone = await service.call('GET', `/api/instances/${bot}`)
    expect(gone.body).toMatchObject({ status: 'offline', silent: false })
    await beat()
    await watch(60)
    expect(await reports()).toEqual([])
    expect((await service.call('GET', `/api/instances/${bot}`)).body).toMatchObject({ left_at: null })
    await watch(300)
    expect(await reports()).toEqual(['bot: instance_offline'])
  })

  it('between two runs of an agent is reported as a restart and does not change the learnt interval', async () => {
    const run = (boot_id: string) =>
      service.call('POST', '/api/heartbeat', { body: { instance_id: bot, name: bot, boot_id } })
    await run('first')
    await watch(60, () => run('first'))
    service.clock.advance(40_000)
    await run('second')
    await vi.waitFor(async () => expect(await reports()).toHaveLength(1), { timeout: 60_000 })
    expect(await ownEvents()).toMatchObject([
      {
        event_type: 'instance_restarted',
        severity: 'info',
        description: 'Started again, 40 seconds after the last heartbeat of its earlier run',
      },
    ])
    const gaps = () => service.rows(`select typical_gap_ms, longest_gap_ms from instances where id = '${bot}'`)
    const before = await gaps()
    service.clock.advance(3_600_000)
    await run('third')
    expect(await gaps()).toEqual(before)
  })

  it('is never reported of an agent that sends a heartbeat every 30 seconds', async () => {
    await watch(600, () => beat())
    expect(await reports()).toEqual([])
  })

  it('is reported once when it ends, and again when it begins again', async () => {
    await beat()
    await watch(210)
    await beat()
    await watch(90)
    expect(await reports()).toEqual(['bot: instance_offline', 'bot: instance_recovered'])
    await watch(150)
    expect(await reports()).toEqual(['bot: instance_offline', 'bot: instance_recovered', 'bot: instance_offline'])
  })

  it('is reported of a suspended agent too', async () => {
    await beat()
    await service.call('POST', `/api/kill/${bot}`, { body: { reason: 'x' } })
    await watch(210)
    expect(await reports()).toEqual(['bot: instance_offline'])
  })

  it('of 450 agents is reported of each of them once', async () => {
    await Promise.all(Array.from({ length: 450 }, (_, index) => beat(`${bot}-${index}`)))
    await watch(210)
    expect((await reports()).length).toBe(450)
    expect(new Set(await reports()).size).toBe(450)
  })

  // Otherwise one key that registers thousands of instances could hide the silence of real agents.
  it('of thousands that sent one heartbeat is reported by name for 500, as a count for the others, and is no outage', async () => {
    const outages = () => service.rows(`select * from job_runs where name = 'fleet_outage'`)
    const agents = Array.from({ length: 6 }, (_, index) => `${bot}-z${index}`)
    await Promise.all(agents.map(beat))
    await watch(90, () => Promise.all(agents.map(beat)))
    await execute(`insert into instances (id, name, first_seen_at, last_heartbeat_at)
      select '${bot}-a' || n, 'invented', ${service.clock.now()}, ${service.clock.now()}
      from (with recursive more(n) as (select 1 union all select n + 1 from more where n < 3000) select n from more) as m`)
    await execute('update instances set typical_gap_ms = 60000, longest_gap_ms = 60000')
    await watch(240, () => Promise.all(agents.slice(1).map(beat)))
    const named = (await reports()).map((line) => line.split(':')[0])
    expect(named).toHaveLength(500)
    expect(named).toContain('bot-z0')
    const summaries = await service.rows<{ description: string; severity: string }>(
      `select severity, description, metadata from events where event_type = 'instances_offline'`,
    )
    expect(summaries).toEqual([
      { severity: 'warning', description: '2501 more instances sent no heartbeat', metadata: '{"instances":2501}' },
    ])
    expect(await outages()).toEqual([])
    await watch(150)
    expect(await outages()).toHaveLength(1)
  })

  it('is reported by exactly one of two processes on the same database', async () => {
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    const sweepBoth = () => Promise.all([service.services.scout.sweep(), other.services.scout.sweep()])
    await watch(90, () => other.services.scout.sweep())
    await Promise.all(['-a', '-b', '-c'].map((id) => beat(bot + id)))
    for (let turn = 0; turn < 8; turn++) {
      service.clock.advance(30_000)
      await sweepBoth()
    }
    expect((await reports()).toSorted()).toEqual([
      'bot-a: instance_offline',
      'bot-b: instance_offline',
      'bot-c: instance_offline',
    ])
    await Promise.all(['-a', '-b', '-c'].map((id) => beat(bot + id)))
    await sweepBoth()
    expect(await reports()).toHaveLength(6)
  })

  // No heartbeat could arrive while the service was down, so a restart must not report the whole fleet.
  it('is not reported in the first 90 seconds after startup', async () => {
    await beat()
    service.clock.advance(3_600_000)
    await using restarted = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    for (let turn = 0; turn < 3; turn++) {
      await restarted.services.scout.sweep()
      expect(await reports()).toEqual([])
      service.clock.advance(30_000)
    }
    await restarted.services.scout.sweep()
    expect(await reports()).toEqual([])
    service.clock.advance(30_000)
    await restarted.services.scout.sweep()
    expect(await reports()).toEqual(['bot: instance_offline'])
  })

  // An agent that sends once a minute is not silent because the clock was set or the machine was asleep.
  it.each([
    ['a clock that was set forward', () => service.clock.jump(3_600_000)],
    ['a pause of the whole machine', () => service.clock.advance(3_600_000)],
  ])('is not reported after %s until the service has run for 90 seconds again', async (_title, disturb) => {
    await watch(120, () => beat())
    disturb()
    await service.services.scout.sweep()
    service.clock.advance(30_000)
    await service.services.scout.sweep()
    expect(await reports()).toEqual([])
    await beat()
    await watch(150)
    expect(await reports()).toEqual([])
    await watch(60)
    expect(await reports()).toEqual(['bot: instance_offline'])
  })

  it('is not reported when the clock was set back', async () => {
    await watch(120, () => beat())
    service.clock.jump(-3_600_000)
    await watch(240, () => beat())
    expect(await reports()).toEqual([])
  })
})
