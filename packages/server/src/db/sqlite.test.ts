import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { CompiledQuery, sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { DatabaseError } from '../errors.ts'
import type { Database } from './database.ts'
import { migrate } from './migrate.ts'
import { isVersionSafe, openSqlite } from './sqlite.ts'
import { SqliteLink } from './sqlite-link.ts'

const folder = mkdtempSync(join(tmpdir(), 'wardline-sqlite-'))
const file = join(folder, 'test.db')

const run = (database: Database, text: string, ...parameters: unknown[]) =>
  database.db.executeQuery(CompiledQuery.raw(text, parameters))
const statement = (text: string, ...parameters: unknown[]) => CompiledQuery.raw(text, parameters)

/** One database for all tests, with an empty table of notes. */
let opened: Database
/** A connection independent of the service. */
let outside: DatabaseSync
beforeAll(async () => {
  opened = await openSqlite(file, () => {})
  outside = new DatabaseSync(file)
  await run(opened, 'create table notes (name text primary key)')
  await migrate(opened, 0)
})
afterAll(async () => {
  outside.close()
  await opened.close()
  rmSync(folder, { recursive: true })
})
beforeEach(() => run(opened, 'delete from notes'))
const names = () =>
  outside
    .prepare('select name from notes order by rowid')
    .all()
    .map((row) => row.name)

/** Takes a good part of a second. */
const slowSelect = `select count(*) from
  (with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < 8000000) select n from numbers)`

describe('isVersionSafe', () => {
  it.each([
    ['3.51.3', true],
    ['3.51.10', true],
    ['3.53.2', true],
    ['3.100.0', true],
    ['4.0.0', true],
    ['3.51.2', false],
    ['3.9.2', false],
    ['3.46.1', false],
  ])('for %s returns %s', (version, safe) => {
    expect(isVersionSafe(version)).toBe(safe)
  })
})

describe('opening', () => {
  it('uses WAL with synchronous=FULL, so that acknowledged rows survive a power failure', async () => {
    const pragmas = ['pragma journal_mode', 'pragma synchronous', 'pragma trusted_schema']
    const answers = await opened.batch(pragmas.map((text) => statement(text)))
    expect(answers.flat()).toEqual([{ journal_mode: 'wal' }, { synchronous: 2 }, { trusted_schema: 0 }])
  })

  it('syncs commits later only while work of many small ones runs, also if that fails', async () => {
    const level = async () => (await opened.batch([statement('pragma synchronous')]))[0]![0]!.synchronous
    expect(await opened.withLateSync(level)).toBe(1)
    expect(await level()).toBe(2)
    const failing = opened.withLateSync(async () => {
      throw new Error(`at level ${await level()}`)
    })
    await expect(failing).rejects.toThrow('at level 1')
    expect(await level()).toBe(2)
  })

  it('refuses an in-memory database and creates no file of that name', async () => {
    // An older version may have left one in the working directory.
    const before = existsSync(':memory:')
    await expect(openSqlite(':memory:', () => {})).rejects.toThrow(/':memory:' is not a file/)
    expect(existsSync(':memory:')).toBe(before)
  })

  it('uses a read-only connection for reads', async () => {
    const { link } = await SqliteLink.open({ file: file, readOnly: true }, { onFatal() {}, onDiskFull() {} })
    const write = link.run([statement(`insert into notes values ('forbidden')`)])
    await expect(write).rejects.toThrow(/readonly/)
    await link.close()
    expect(names()).toEqual([])
  })

  it.each([
    ['a file that is no database', () => writeFileSync(join(folder, 'garbage.db'), 'x'.repeat(5_000)), 'garbage.db'],
    ['a folder that is not there', () => {}, 'nowhere/some.db'],
  ])('refuses %s with an error that names the file', async (_title, prepare, name) => {
    prepare()
    const file = join(folder, name)
    const fault = await openSqlite(file, () => {}).catch((thrown: unknown) => thrown)
    expect(fault).toBeInstanceOf(DatabaseError)
    expect((fault as Error).message).toContain(`The database ${file} cannot be opened: `)
  })
})

describe('batch', () => {
  it('executes all statements or none', async () => {
    const fault = await opened
      .batch([
        statement(`insert into notes values ('first')`),
        statement(`insert into notes values ('second')`),
        statement(`insert into notes values ('first')`),
      ])
      .catch((thrown: unknown) => thrown)
    expect(fault).toMatchObject({ name: 'DatabaseError', constraint: true })
    expect(names()).toEqual([])
    await opened.batch([statement(`insert into notes values ('third')`), statement('delete from notes')])
    expect(names()).toEqual([])
  })

  it('resolves with the rows of each statement', async () => {
    const answers = await opened.batch([
      statement(`insert into notes values ('a'), ('b') returning name`),
      statement('select count(*) as count from notes'),
      statement('delete from notes'),
    ])
    expect(answers).toEqual([[{ name: 'a' }, { name: 'b' }], [{ count: 2 }], []])
  })

  it('distinguishes a statement that cannot succeed from a database failure', async () => {
    await expect(run(opened, 'insert into notes values (?), (?)', 'a', 'a')).rejects.toMatchObject({
      constraint: true,
    })
    await expect(run(opened, `insert into missing values ('a')`)).rejects.toMatchObject({
      name: 'DatabaseError',
      constraint: false,
    })
  })
})

describe('control', () => {
  // Otherwise a flood of small writes would delay a kill until its caller gives up.
  it.each(['writes', 'transactions'])('goes ahead of waiting %s', async (kind) => {
    let answered = 0
    const writes = Array.from({ length: 60 }, async (_, index) => {
      const write = statement('insert into notes values (?)', String(index))
      if (kind === 'writes') await opened.batch([write])
      else await opened.db.transaction().execute((trx) => trx.executeQuery(write))
      answered += 1
    })
    await Promise.race(writes)
    const before = answered
    await opened.batch([statement(`insert into notes values ('kill')`)], { isControl: true })
    expect(answered - before).toBeLessThan(10)
    await Promise.all(writes)
    expect(names()).toHaveLength(61)
  })
})

describe('transactions', () => {
  it('block every other writer until they end', async () => {
    const database = opened
    const order: string[] = []
    const begun = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    const transaction = database.db.transaction().execute(async (trx) => {
      await trx.executeQuery(statement(`insert into notes values ('transaction')`))
      begun.resolve()
      await gate.promise
      await trx.executeQuery(statement(`insert into notes values ('transaction again')`))
      order.push('transaction')
    })
    await begun.promise
    const others = [
      database.batch([statement(`insert into notes values ('batch')`)]).then(() => order.push('batch')),
      run(database, `insert into notes values ('single')`).then(() => order.push('single')),
      database.db.transaction().execute((trx) => trx.executeQuery(statement(`insert into notes values ('second')`))),
    ]
    // A writer that did not wait would finish before these reads.
    for (let turn = 0; turn < 5; turn++) await run(database, 'select name from notes')
    expect(order).toEqual([])
    gate.resolve()
    await Promise.all([transaction, ...others])
    expect(order).toEqual(['transaction', 'batch', 'single'])
    expect(names()).toEqual(['transaction', 'transaction again', 'batch', 'single', 'second'])
  })

  it('do not block reads, which do not see their changes', async () => {
    await opened.db.transaction().execute(async (trx) => {
      await trx.executeQuery(statement(`insert into notes values ('unseen')`))
      const { rows } = await run(opened, 'select name from notes')
      expect(rows).toEqual([])
    })
    expect(names()).toEqual(['unseen'])
  })

  it('leave no changes if their work throws', async () => {
    const work = opened.db.transaction().execute(async (trx) => {
      await trx.executeQuery(statement(`insert into notes values ('undone')`))
      throw new Error('changed my mind')
    })
    await expect(work).rejects.toThrow('changed my mind')
    await run(opened, `insert into notes values ('after')`)
    expect(names()).toEqual(['after'])
  })

  // A transaction left open would capture every later write, confirm it, and lose it with the process.
  it('do not stay open if `begin` succeeds after the caller has given up', async () => {
    // The batch waits for the foreign lock, then `begin` does, longer in total than any caller's deadline.
    outside.exec('begin immediate')
    const batch = opened.batch([statement(`insert into notes values ('refused')`)]).catch(() => 'locked')
    const transaction = opened.db.transaction().execute(async () => 'begun')
    await expect(transaction).rejects.toThrow('does not answer')
    outside.exec('rollback')
    expect(await batch).toBe('locked')
    await opened.batch([statement(`insert into notes values ('acknowledged')`)])
    expect(names()).toEqual(['acknowledged'])
  })
})

describe('reading', () => {
  it('sees every write confirmed before it', async () => {
    for (let count = 1; count <= 50; count++) {
      await opened.batch([statement('insert into notes values (?)', String(count))])
      const { rows } = await run(opened, 'select count(*) as count from notes')
      expect(rows).toEqual([{ count }])
    }
  })

  it('does not delay a write, however long the read takes', async () => {
    const order: string[] = []
    // On a slow machine the read may fail because it took too long.
    const read = run(opened, slowSelect)
      .catch(() => {})
      .then(() => order.push('read'))
    const write = opened.db
      .transaction()
      .execute((trx) => trx.executeQuery(statement(`insert into notes values ('kill')`)))
      .then(() => order.push('write'))
    await Promise.all([read, write])
    expect(order).toEqual(['write', 'read'])
  })
})

describe('backup', () => {
  it('copies committed data and never overwrites a file', async () => {
    await run(opened, `insert into notes values ('kept')`)
    const target = join(folder, 'copy.db')
    await opened.backup(target)
    const copy = new DatabaseSync(target)
    expect(copy.prepare('select name from notes').all()).toEqual([{ name: 'kept' }])
    expect(copy.prepare('pragma integrity_check').get()).toEqual({ integrity_check: 'ok' })
    copy.close()
    await expect(opened.backup(target)).rejects.toThrow(`${target} already exists.`)
    expect(existsSync(target)).toBe(true)
  })
})

describe('the audit table', () => {
  // Even an attacker who can run SQL through the service cannot rewrite recorded entries.
  it.each([
    ['an edit', `update audit_log set actor = 'nobody'`],
    ['a removal', 'delete from audit_log'],
    ['a removal of one row', 'delete from audit_log where seq = 1'],
  ])('refuses %s', async (_title, text) => {
    await sql`insert or ignore into audit_log (seq, at, actor, action, prev_hash, hash) values (1, 0, 'a', 'b', 'c', 'd')`.execute(
      opened.db,
    )
    await expect(run(opened, text)).rejects.toThrow('audit_log is append-only')
    expect(outside.prepare('select actor from audit_log').all()).toEqual([{ actor: 'a' }])
  })
})
