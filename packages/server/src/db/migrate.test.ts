import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { DatabaseError } from '../errors.ts'
import { openTestDatabase, type TestDatabase } from '../testing/service.ts'
import { migrate } from './migrate.ts'
import { initial } from './migrations/0001-initial.ts'
import { controlChanges } from './migrations/0002-control-changes.ts'
import { alerts } from './migrations/0003-alerts.ts'
import { openDatabase } from './open.ts'

const versions = (opened: TestDatabase) =>
  opened.rows<{ version: number; name: string; applied_at: number }>(
    'select version, name, applied_at from schema_version order by version',
  )

/** Every row of every table. */
async function contents(opened: TestDatabase) {
  const tables = await opened.tables()
  return Promise.all(tables.map(async (table) => [table, await opened.rows(`select * from ${table}`)]))
}

describe('migrate', () => {
  it('migrates an empty database to the newest schema and records the time', async () => {
    await using opened = await openTestDatabase()
    await migrate(opened.database, 1_700_000_000_000)
    const steps = await versions(opened)
    expect(steps[0]).toEqual({ version: 1, name: 'initial', applied_at: 1_700_000_000_000 })
    const numbers = steps.map(({ version }) => version)
    expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b))
    expect(new Set(steps.map(({ applied_at }) => applied_at)).size).toBe(1)
    expect(await opened.rows('select * from audit_head')).toEqual([{ id: 1, seq: 0, hash: '0'.repeat(64) }])
    const counters = await opened.rows('select name, value from counters order by name')
    const names = ['alert_config', 'alert_seq', 'counted_seq', 'event_seq', 'indexed_seq', 'mailed_seq', 'policy_set']
    expect(counters).toEqual(names.map((name) => ({ name, value: 0 })))
  })

  it('changes nothing when run a second time', async () => {
    await using opened = await openTestDatabase()
    await migrate(opened.database, 1)
    await sql`update counters set value = 7 where name = 'event_seq'`.execute(opened.database.db)
    const before = await contents(opened)
    await migrate(opened.database, 2)
    expect(await contents(opened)).toEqual(before)
    expect(await opened.rows(`select value from counters where name = 'event_seq'`)).toEqual([{ value: 7 }])
  })

  // An older program could write rows that the newer one cannot read, unnoticed for weeks.
  it('refuses a schema newer than this program', async () => {
    await using opened = await openTestDatabase()
    await migrate(opened.database, 1)
    const newest = (await versions(opened)).at(-1)!.version
    await opened.execute(`insert into schema_version values (999, 'from the future', 2)`)
    const fault = await migrate(opened.database, 3).catch((thrown: unknown) => thrown)
    expect(fault).toBeInstanceOf(DatabaseError)
    expect((fault as Error).message).toBe(
      `The database has schema 999, this version supports up to ${newest}: install a newer version.`,
    )
  })

  it('migrates once if several processes start together', async () => {
    await using opened = await openTestDatabase()
    const others = await Promise.all([1, 2, 3].map(() => openDatabase(opened.url, () => {})))
    await Promise.all([opened.database, ...others].map((database, index) => migrate(database, index)))
    const steps = await versions(opened)
    const numbers = steps.map(({ version }) => version)
    expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b))
    expect(await opened.rows('select count(*) as count from audit_head')).toEqual([{ count: 1 }])
    await Promise.all(others.map((database) => database.close()))
  })

  // Callers could report under the service's name in older versions; an upgrade must not mark such events as its own.
  it('marks the service’s own events in an older database, but none that a caller may have forged', async () => {
    await using opened = await openTestDatabase()
    const { ddl } = opened.database.dialect
    const steps = [initial(ddl), controlChanges(), alerts(ddl)]
    for (const statements of steps) for (const statement of statements) await opened.execute(statement)
    await opened.execute('create table schema_version (version integer primary key, name text, applied_at bigint)')
    await opened.execute(`insert into schema_version values (1, 'a', 1), (2, 'b', 1), (3, 'c', 1)`)
    await opened.database.prepareDays(1)
    const rows: [type: string, source: string, address: string | null, id: string][] = [
      ['instance_offline', 'wardline', null, 'own'],
      ['instance_offline', 'wardline', '192.0.2.7', 'forged'],
      ['instance_offline', 'agent-1', '192.0.2.7', 'claimed'],
      ['honeypot_triggered', 'wardline', '192.0.2.7', 'hit'],
      ['honeypot_triggered', 'wardline', '192.0.2.7', 'forged hit'],
      ['tool_call', 'wardline', '192.0.2.7', 'other type'],
      // Newer than the indexed events.
      ['anomaly_detected', 'wardline', null, 'own too'],
      ['anomaly_detected', 'wardline', '192.0.2.7', 'forged too'],
    ]
    const text = (value: string | null) => (value === null ? 'null' : `'${value}'`)
    for (const [index, [type, source, address, id]] of rows.entries()) {
      const seq = index + 1
      await opened.execute(`insert into events
        (seq, created_at, severity, class, source, event_type, ip_address, id, description)
        values (${seq}, 1, 'warning', 'none', '${source}', '${type}', ${text(address)}, '${id}', 'x')`)
      if (seq <= 6) await opened.execute(`insert into event_refs (kind, value, seq) values ('type', '${type}', ${seq})`)
    }
    await opened.execute(`update counters set value = 6 where name = 'indexed_seq'`)
    await opened.execute(`update counters set value = ${rows.length} where name = 'event_seq'`)
    await opened.execute(
      `insert into honeypot_hits (id, honeypot_id, at, key_id, event_id) values ('1', '1', 1, 'k', 'hit')`,
    )
    await migrate(opened.database, 2)
    const marked = await opened.rows<{ id: string }>('select id from events where by_service = 1 order by seq')
    expect(marked.map(({ id }) => id)).toEqual(['own', 'hit', 'own too'])
  })
})
