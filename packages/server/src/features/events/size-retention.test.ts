import { describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'
import { indexEvents } from './event-index.ts'
import { eventToStore } from './new-event.ts'
import { createSizeRetention } from './size-retention.ts'

const mebibyte = 1024 * 1024
const hourMs = 3_600_000
const rows = 6_000
const infos = rows * 0.7

/** Stores 6 MiB of events: of every ten one is a warning, one critical, one a breach, the others info. */
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
/** A limit that the data exceeds by about `mb` MiB. */
const limitBelow = (full: number, mb: number) => full - mb
const severities = ['info', 'warning', 'critical', 'breach']
/** Returns the number of removed events of each severity. */
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
  it('removes the oldest info events first, breaches last, and keeps the counts', async () => {
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
    // How much is removed depends on what else is in the database.
    for (const [index, severity] of severities.slice(0, -1).entries()) {
      if (some[severity]) expect(removed[severities[index + 1]!], `gone before every ${severity}`).toBe(0)
    }
    expect(removed.breach).toBe(0)
    if (some.info) expect(some.info.first).toBeGreaterThan(500)
    expect(await used(service)).toBeLessThan(full - 1.2)
    expect(await counts()).toEqual(before)
    // All info events and warnings, and some of the critical events.
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

  // An agent that fills the database by touching a decoy all day must not erase the record of what it did before.
  it('keeps critical events and breaches when other tables fill the database, and reports those tables', async () => {
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
    // Critical events and breaches beyond half of the limit are removed, critical events first.
    for (let turn = 0; turn < 3; turn++) {
      await retention(service, 2).run()
      service.clock.advance(60_000)
    }
    const few = await left(service)
    expect(few.critical?.count ?? 0).toBeLessThan(300)
    expect(few.breach!.count).toBe(600)
  })

  it('reports removals once an hour, with counts', async () => {
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

  it('removes nothing below the limit, without a limit, or from the last minute', async () => {
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

  it('runs in only one of two processes', async () => {
    await using service = await openTestService({ isMeasured: true })
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    await fill(service)
    service.clock.advance(hourMs)
    const full = Math.floor(await used(service))
    await Promise.all([retention(service, limitBelow(full, 2)).run(), retention(other, limitBelow(full, 2)).run()])
    const [report] = await reports(service)
    expect(JSON.parse(report!.metadata).removed).toEqual(await removedOf(service))
  })

  // Freeing space after a flood takes long, and the flooding agent must be suspended meanwhile.
  it('does not delay a kill', async () => {
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
