import { describe, expect, it } from 'vitest'
import { minuteMs } from '../../clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

const beat = (service: TestService, boot: string | undefined, id = 'bot', key?: string) =>
  service.call('POST', '/api/heartbeat', {
    body: { instance_id: id, name: id, ...(boot === undefined ? {} : { boot_id: boot }) },
    ...(key === undefined ? {} : { key }),
  })

const found = async (service: TestService) =>
  (
    await service.rows<{ event_type: string; severity: string; instance_id: string; metadata: string }>(
      `select event_type, severity, instance_id, metadata from events
        where event_type in ('instance_clone', 'instance_crash_loop') order by seq`,
    )
  ).map(({ metadata, ...event }) => ({ ...event, metadata: JSON.parse(metadata) }))

describe('two agents under one instance id', () => {
  it('are reported when an earlier run sends heartbeats again, with the keys and addresses of both', async () => {
    await using service = await openTestService()
    const one = await service.createKey('agent', ['bot'])
    const other = await service.createKey('agent', ['bot'])
    await beat(service, 'a', 'bot', one.key)
    await beat(service, 'b', 'bot', other.key)
    expect(await found(service)).toEqual([])
    await beat(service, 'a', 'bot', one.key)
    expect(await found(service)).toMatchObject([
      {
        event_type: 'instance_clone',
        severity: 'critical',
        instance_id: 'bot',
        metadata: {
          occurrences: 1,
          boots: [
            { boot_id: 'a', key_id: one.id, address: '127.0.0.1' },
            { boot_id: 'b', key_id: other.id, address: '127.0.0.1' },
          ],
        },
      },
    ])
  })

  it('are reported at most once in ten minutes, with a count across processes', async () => {
    await using service = await openTestService()
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    for (let index = 0; index < 12; index++) {
      await beat(index % 3 === 0 ? other : service, index % 2 === 0 ? 'a' : 'b')
      service.clock.advance(10_000)
    }
    expect(await found(service)).toHaveLength(1)
    service.clock.advance(10 * minuteMs)
    await beat(other, 'a')
    const reports = await found(service)
    expect(reports.map(({ metadata }) => metadata.occurrences)).toEqual([1, 10])
  })

  it('are detected among three runs, even after a restart of the service', async () => {
    await using service = await openTestService()
    for (const boot of ['a', 'b', 'c']) await beat(service, boot)
    await using later = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    expect(await found(later)).toEqual([])
    await beat(later, 'a')
    expect(await found(later)).toMatchObject([{ event_type: 'instance_clone' }])
  })

  // A copy that takes a new boot id each time, so that the run of the original is forgotten before it returns.
  it.each([
    ['the first run of the instance', ['original'], 0],
    ['a run that started an hour after a long one', ['first', 'original'], 60 * minuteMs],
    ['a run that started a minute ago', ['first', 'second', 'original'], minuteMs],
    ['a run that was heard once', ['first', 'original'], 0],
  ])('are reported when the copy has many boot ids between two heartbeats of %s', async (_, starts, heardMs) => {
    await using service = await openTestService()
    for (const boot of starts) {
      for (let heard = 0; heard <= 10; heard++) {
        await beat(service, boot)
        if (boot === 'original' && heardMs === 0) break
        service.clock.advance((boot === 'original' ? heardMs : 60 * minuteMs) / 10)
      }
    }
    const clones = async () => (await found(service)).filter(({ event_type }) => event_type === 'instance_clone')
    for (let round = 0; round < 3; round++) {
      for (let copy = 0; copy < 40; copy++) {
        await beat(service, `copy-${round}-${copy}`)
        service.clock.advance(700)
      }
      expect(await clones()).toHaveLength(round)
      await beat(service, 'original')
      expect((await clones())[round]).toMatchObject({
        metadata: { boots: [{ boot_id: 'original' }, { boot_id: `copy-${round}-39` }] },
      })
      service.clock.advance(10 * minuteMs)
    }
    const [row] = await service.rows<{ boots: string }>(`select boots from instances where id = 'bot'`)
    expect(JSON.parse(row!.boots).length).toBeLessThanOrEqual(7)
  })

  // Otherwise one copy that ran for a while would take the place that the original needs.
  it('are reported when the original outlived one of the copies', async () => {
    await using service = await openTestService()
    const clones = async () => (await found(service)).filter(({ event_type }) => event_type === 'instance_clone').length
    for (const boot of ['first', 'original', 'original', 'original', 'copy', 'copy']) {
      await beat(service, boot)
      service.clock.advance(50_000)
    }
    for (let copy = 0; copy < 20; copy++) await beat(service, `copy-${copy}`)
    await beat(service, 'original')
    expect(await clones()).toBe(1)
  })

  it('are not reported while the runs of an agent are forgotten in the order of their restarts', async () => {
    await using service = await openTestService()
    for (let start = 0; start < 60; start++) {
      // Long runs, crash loops and releases without boot ids, by the remainder.
      const beats = start % 7 === 0 ? 20 : start % 5 === 0 ? 3 : 1
      for (let heard = 0; heard < beats; heard++) {
        await beat(service, start % 11 === 0 ? undefined : `run-${start}`)
        service.clock.advance(30_000)
      }
    }
    expect((await found(service)).filter(({ event_type }) => event_type === 'instance_clone')).toEqual([])
    const [row] = await service.rows<{ boots: string }>(`select boots from instances where id = 'bot'`)
    expect(JSON.parse(row!.boots).length).toBeLessThanOrEqual(7)
  })

  it('are reported once when two processes receive their heartbeats at the same time', async () => {
    await using service = await openTestService()
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    await beat(service, 'a')
    await beat(service, 'b')
    await Promise.all([beat(service, 'a'), beat(other, 'a'), beat(service, 'b'), beat(other, 'b')])
    await beat(service, 'a')
    expect(await found(service)).toHaveLength(1)
  })

  // A clone that leaves out the boot id, or an agent that goes on beside one that does.
  it.each([
    ['a copy without a boot id goes on beside the original', ['a', undefined, 'a']],
    ['the original comes back after several heartbeats of the copy', ['a', undefined, undefined, undefined, 'a']],
    ['the copy came first', [undefined, 'a', undefined, 'a']],
    ['the original restarts meanwhile', ['a', undefined, 'b', undefined, 'b']],
    ['the copy sends an empty boot id', ['a', '', 'a']],
  ])('are reported when %s', async (_, beats) => {
    await using service = await openTestService()
    const one = await service.createKey('agent', ['bot'])
    const other = await service.createKey('agent', ['bot'])
    for (const boot of beats) {
      expect(await found(service)).toEqual([])
      await beat(service, boot, 'bot', boot ? one.key : other.key)
      service.clock.advance(30_000)
    }
    expect(await found(service)).toMatchObject([
      {
        event_type: 'instance_clone',
        severity: 'critical',
        metadata: {
          boots: [
            { boot_id: beats.at(-1), key_id: one.id },
            { boot_id: null, key_id: other.id },
          ],
        },
      },
    ])
  })

  it('are reported once in ten minutes while heartbeats with and without a boot id alternate', async () => {
    await using service = await openTestService()
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    for (let index = 0; index < 24; index++) {
      await beat(index % 3 === 0 ? other : service, index % 2 === 0 ? 'a' : undefined)
      service.clock.advance(30_000)
    }
    const reports = await found(service)
    expect(reports.map(({ event_type, metadata }) => [event_type, metadata.occurrences])).toEqual([
      ['instance_clone', 1],
      ['instance_clone', 10],
    ])
  })

  it('are not reported for restarts, a release without boot ids, one that is taken back, or an upgrade', async () => {
    await using service = await openTestService()
    const runs = ['a', 'b', undefined, undefined, 'c', undefined, 'd', undefined, undefined, undefined]
    for (const boot of runs) {
      await beat(service, boot)
      service.clock.advance(2 * minuteMs)
    }
    expect(await found(service)).toEqual([])
  })

  it('are not reported for a client that sends its boot id only with its first heartbeat, nor is it a crash loop', async () => {
    await using service = await openTestService()
    for (const boot of ['a', undefined, undefined, 'b', undefined, undefined, 'c', undefined]) {
      await beat(service, boot)
      service.clock.advance(60_000)
    }
    expect(await found(service)).toEqual([])
    const restarts = await service.rows(`select id from events where event_type = 'instance_restarted'`)
    expect(restarts.length).toBeLessThanOrEqual(2)
  })

  it('are reported without boot ids when two versions alternate within minutes, but not for a release taken back', async () => {
    await using service = await openTestService()
    const send = (more: object) =>
      service.call('POST', '/api/heartbeat', { body: { instance_id: 'bot', name: 'bot', ...more } })
    for (const version of ['1', '2', '1', '1', '1']) {
      await send({ version })
      service.clock.advance(60_000)
    }
    service.clock.advance(10 * minuteMs)
    await send({ version: '2' })
    expect(await found(service)).toEqual([])
    for (const version of ['1', '2']) {
      service.clock.advance(30_000)
      await send({ version })
    }
    expect(await found(service)).toMatchObject([
      { event_type: 'instance_clone', metadata: { boots: [{ boot_id: null }, { boot_id: null }] } },
    ])
  })

  it('are not reported for the hooks of two coding agents that share an instance id', async () => {
    await using service = await openTestService()
    for (let call = 0; call < 8; call++) {
      const agent_type = call % 2 === 0 ? 'codex' : 'claude-code'
      const body = { instance_id: 'bot', name: 'bot', agent_type, leaving: true }
      await service.call('POST', '/api/heartbeat', { body })
      service.clock.advance(30_000)
    }
    expect(await found(service)).toEqual([])
  })

  it('are reported with hostile boot ids, which change nothing else', async () => {
    await using service = await openTestService()
    const hostile = `"],[{<script>' or 1=1 --${'\u0001'}`
    for (const boot of [hostile, 'b', hostile]) await beat(service, boot)
    const [clone] = await found(service)
    expect(clone!.metadata.boots[0].boot_id).toBe(hostile)
    expect((await service.call('GET', '/api/instances/bot')).status).toBe(200)
  })
})

describe('an agent that keeps restarting', () => {
  it('is reported once as a crash loop after three restarts within five minutes', async () => {
    await using service = await openTestService()
    for (let start = 0; start < 20; start++) {
      await beat(service, `run-${start}`)
      expect(await found(service)).toHaveLength(start < 3 ? 0 : 1)
      service.clock.advance(90_000)
    }
    expect(await found(service)).toMatchObject([
      { event_type: 'instance_crash_loop', severity: 'warning', metadata: { restarts: 3 } },
    ])
    service.clock.advance(10 * minuteMs)
    for (let start = 20; start < 24; start++) await beat(service, `run-${start}`)
    expect(await found(service)).toHaveLength(2)
  })

  it('is not reported for restarts over more than five minutes, or for a deployment', async () => {
    await using service = await openTestService()
    for (let start = 0; start < 8; start++) {
      await beat(service, `run-${start}`)
      service.clock.advance(2.6 * minuteMs)
    }
    const ids = Array.from({ length: 50 }, (_, index) => `agent-${index}`)
    await Promise.all(ids.map((id) => beat(service, 'old', id)))
    await Promise.all(ids.map((id) => beat(service, 'new', id)))
    expect(await found(service)).toEqual([])
  })

  it('is not reported because the clock of the service was set back', async () => {
    await using service = await openTestService()
    const { clock } = service
    await beat(service, 'run-0')
    for (let start = 1; start < 6; start++) {
      clock.advance(60 * minuteMs)
      // Every restart appears to be at the same time.
      clock.jump(-60 * minuteMs)
      await beat(service, `run-${start}`)
    }
    expect(await found(service)).toEqual([])
  })
})
