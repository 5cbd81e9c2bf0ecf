import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { DatabaseError } from '../errors.ts'
import { openTestDatabase } from '../test-service.ts'
import { migrate } from './migrate.ts'
import { openSqlite } from './sqlite.ts'

const versions = 'select version, name, applied_at from schema_version order by version'

describe('migrate', () => {
  it('brings an empty file to the newest schema and notes when', async () => {
    await using opened = await openTestDatabase()
    await migrate(opened.database, 1_700_000_000_000)
    expect(opened.outside.prepare(versions).all()).toEqual([
      { version: 1, name: 'initial', applied_at: 1_700_000_000_000 },
    ])
    expect(opened.outside.prepare('select * from audit_head').all()).toEqual([{ id: 1, seq: 0, hash: '0'.repeat(64) }])
    expect(opened.outside.prepare('select value from counters').all()).toEqual([{ value: 0 }, { value: 0 }])
  })

  it('changes nothing the second time', async () => {
    await using opened = await openTestDatabase()
    await migrate(opened.database, 1)
    await sql`update counters set value = 7 where name = 'event_seq'`.execute(opened.database.db)
    const before = opened.outside.prepare('select type, name, sql from sqlite_schema order by name').all()
    await migrate(opened.database, 2)
    expect(opened.outside.prepare('select type, name, sql from sqlite_schema order by name').all()).toEqual(before)
    expect(opened.outside.prepare(`select value from counters where name = 'event_seq'`).all()).toEqual([{ value: 7 }])
    expect(opened.outside.prepare(versions).all()).toEqual([{ version: 1, name: 'initial', applied_at: 1 }])
  })

  // An older program would write rows that the newer one cannot read, and nobody would notice for weeks.
  it('refuses a schema that is newer than this program', async () => {
    await using opened = await openTestDatabase()
    await migrate(opened.database, 1)
    opened.outside.exec(`insert into schema_version values (999, 'from the future', 2)`)
    const fault = await migrate(opened.database, 3).catch((thrown: unknown) => thrown)
    expect(fault).toBeInstanceOf(DatabaseError)
    expect((fault as Error).message).toBe(
      'The database has schema 999, this program knows up to 1: install a newer one.',
    )
  })

  it('lets programs that start together migrate once', async () => {
    await using opened = await openTestDatabase()
    const others = await Promise.all([1, 2, 3].map(() => openSqlite(opened.file, () => {})))
    await Promise.all([opened.database, ...others].map((database, index) => migrate(database, index)))
    expect(opened.outside.prepare('select count(*) as count from schema_version').all()).toEqual([{ count: 1 }])
    expect(opened.outside.prepare('select count(*) as count from audit_head').all()).toEqual([{ count: 1 }])
    await Promise.all(others.map((database) => database.close()))
  })
})
