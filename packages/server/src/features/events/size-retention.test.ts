import { describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../test-service.ts'
import { indexEvents } from './event-index.ts'
import { eventToStore } from './new-event.ts'
import { createSizeRetention } from './size-retention.ts'

const mebibyte = 1024 * 1024
const hourMs = 3_600_000
const rows = 6_000
const infos = rows * 0.7

/** 6 MiB of events: of every ten one is a warning, one critical, one a breach, the others info. */
async function fill({ services, clock, execute, deps }: TestService): Promise<void> {
  const report = { severity: 'info' as const, source: 'test', event_type: 'note', description: 'x'.repeat(1_000) }
  await services.ingest.store([eventToStore(report, null, clock.now())])
  const columns = 'class, tool, source, event_type, instance_id, session_id, ip_address, id, description, metadata'
  await execute(`insert into events (seq, created_at, severity, ${columns})
      with recursive more(n) as (select 2 union all select n + 1 from more where n < ${rows})
      select n, created_at, case n % 10 when 7 then 'warning' when 8 then 'critical' when 9 then 'breach' else 'info' end,
        ${columns} from more, events where seq = 1;
    update event_minutes set last_seq = ${rows};
    update counters set value = ${rows} where name = 'event_seq'`)
  for (let done = 0; done < rows; done += 10_000) await indexEvents(deps.database)
  await deps.database.noteDeleted(clock.now(), clock.now())
}

const retention = ({ deps, services }: TestService, maxDbMb: number) =>
  createSizeRetention({ ...deps, config: { ...deps.config, maxDbMb } }, services.ingest)
const used = async ({ deps }: TestService) => (await deps.database.usedBytes()) / mebibyte
async function left(service: TestService) {
  const counts = await service.rows<{ severity: string; count: number; first: number }>(
    `select severity, count(*) as count, min(seq) as first from events where source = 'test' group by severity`,
  )
  return Object.fromEntries(counts.map(({ severity, count, first }) => [severity, { count: Number(count), first }]))
}
/** A limit that the data exceeds by about so many MiB. */
const limitBelow = (full: number, mb: number) => full - mb
const severities = ['info', 'warning', 'critical', 'breach']
/** How many of each severity are gone. */
async function removedOf(service: TestService): Promise<Record<string, number>> {
  const kept = await left(service)
  return Object.fromEntries(
    severities.map((severity) => [severity, (severity === 'info' ? infos : rows / 10) - (kept[severity]?.count ?? 0)]),
  )
}
const reports = (service: TestService) =>
  service.rows<{ description: string; metadata: string }>(
    `select description, metadata from events where event_type = 'events_removed' order by seq`,
  )

describe('retention by size', () => {
  it('removes the oldest info first, breaches last, and leaves the counts', async () => {
    await using service = await openTestService({ isMeasured: true })
    await fill(service)
    service.clock.advance(hourMs)
    const full = await used(service)
    const counts = () => service.rows("select unit, severity, bucket, count from event_counts where severity = 'info'")
    const before = await counts()
    await retention(service, limitBelow(full, 2.5)).run()
    const some = await left(service)
    const removed = await removedOf(service)
    expect(removed.info).toBeGreaterThan(infos * 0.1)
    // How far it goes depends on what else the database holds.
    for (const [index, severity] of severities.slice(0, -1).entries()) {
      if (some[severity]) expect(removed[severities[index + 1]!], `gone before every ${severity}`).toBe(0)
    }
    expect(removed.breach).toBe(0)
    if (some.info) expect(some.info.first).toBeGreaterThan(500)
    expect(await used(service)).toBeLessThan(full - 1.2)
    expect(await counts()).toEqual(before)
    // The whole of what is info and warning, and a part of the critical ones.
    for (let turn = 0; turn < 4; turn++) {
      service.clock.advance(60_000)
      await retention(service, limitBelow(full, 5.5)).run()
    }
    const few = await left(service)
    expect(few.info).toBeUndefined()
    expect(few.breach!.count).toBeGreaterThan(few.warning?.count ?? 0)
    expect(few.breach!.count).toBeGreaterThanOrEqual(few.critical?.count ?? 0)
    const [dangling] = await service.rows<{ count: number }>(
      'select count(*) as count from event_refs where not exists (select 1 from events where events.seq = event_refs.seq)',
    )
    expect(Number(dangling!.count)).toBe(0)
  })

  // An agent that touches a decoy all day fills the database, and must not erase what it did before.
  it('removes no critical events and breaches in place of what else fills the database, and names that', async () => {
    await using service = await openTestService({ isMeasured: true })
    await fill(service)
    await service.execute(`insert into honeypot_hits (id, honeypot_id, at, key_id, tool, event_id)
      with recursive more(n) as (select 1 union all select n + 1 from more where n < 8000)
      select cast(n as text), 'decoy', 1, 'key', '${'x'.repeat(1_000)}', cast(n as text) from more`)
    service.clock.advance(hourMs)
    const limit = Math.floor(await used(service)) - 8
    const kept = retention(service, limit)
    for (let turn = 0; turn < 4; turn++) {
      await kept.run()
      service.clock.advance(60_000)
    }
    const { info, warning, critical, breach } = await left(service)
    expect([info, warning, critical?.count, breach?.count]).toEqual([undefined, undefined, 600, 600])
    const [, report, ...others] = await reports(service)
    expect(others).toEqual([])
    expect(report!.description).toContain(`more than ${limit} MiB`)
    expect(report!.description).toContain('Largest tables: 8000 honeypot_hits, ')
    expect(JSON.parse(report!.metadata).rows.honeypot_hits).toBe(8_000)
    // What takes more than half of the limit itself goes, critical events first.
    for (let turn = 0; turn < 3; turn++) {
      await retention(service, 2).run()
      service.clock.advance(60_000)
    }
    const few = await left(service)
    expect(few.critical?.count ?? 0).toBeLessThan(300)
    expect(few.breach!.count).toBe(600)
  })

  it('says so once an hour, with counts', async () => {
    await using service = await openTestService({ isMeasured: true })
    await fill(service)
    service.clock.advance(hourMs)
    const full = Math.floor(await used(service))
    const removals = async () => (await reports(service)).filter(({ description }) => description.startsWith('About'))
    const kept = retention(service, limitBelow(full, 2))
    await kept.run()
    const [{ description, metadata }] = (await reports(service)) as [{ description: string; metadata: string }]
    const { removed } = JSON.parse(metadata)
    expect(removed).toEqual(await removedOf(service))
    const total = Object.values<number>(removed).reduce((sum, count) => sum + count)
    expect(description).toMatch(
      new RegExp(
        `^About ${total} events were removed to keep the database below ${limitBelow(full, 2)} MiB \\(WARDLINE_MAX_DB_MB\\): ${removed.info} info`,
      ),
    )
    service.clock.advance(60_000)
    await retention(service, limitBelow(full, 4)).run()
    expect(await removals()).toHaveLength(1)
    service.clock.advance(hourMs)
    await kept.run()
    expect(await removals()).toHaveLength(1)
  })

  it('touches nothing below the limit, without one, and nothing of the last minute', async () => {
    await using service = await openTestService({ isMeasured: true })
    await fill(service)
    const nothing = async () => expect((await left(service)).info!.count).toBe(infos)
    await retention(service, 1).run()
    await nothing()
    service.clock.advance(hourMs)
    await createSizeRetention(service.deps, service.services.ingest).run()
    await retention(service, 10_000).run()
    await nothing()
    expect(await reports(service)).toEqual([])
  })

  it('is done by one of two processes', async () => {
    await using service = await openTestService({ isMeasured: true })
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    await fill(service)
    service.clock.advance(hourMs)
    const full = Math.floor(await used(service))
    await Promise.all([retention(service, limitBelow(full, 2)).run(), retention(other, limitBelow(full, 2)).run()])
    const [report] = await reports(service)
    expect(JSON.parse(report!.metadata).removed).toEqual(await removedOf(service))
  })

  // Making room takes long when a flood has filled the disk, and the agent that floods has to be stopped meanwhile.
  it('lets a kill pass in between', async () => {
    await using service = await openTestService({ isMeasured: true })
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'bot', name: 'bot' } })
    await fill(service)
    service.clock.advance(hourMs)
    let isDone = false
    const running = retention(service, Math.floor(await used(service)) - 5)
      .run()
      .then(() => {
        isDone = true
      })
    expect((await service.call('POST', '/api/kill/bot', { body: { reason: 'x' } })).status).toBe(200)
    expect(isDone).toBe(false)
    await running
    expect((await left(service)).info?.count ?? 0).toBeLessThan(infos)
  })
})
