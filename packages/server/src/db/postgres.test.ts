import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { CompiledQuery, sql } from 'kysely'
import { Client } from 'pg'
import { beforeEach, describe, expect, inject, it, vi } from 'vitest'
import { createMemoryBus } from '../bus/memory.ts'
import { readConfig } from '../config/config.ts'
import type { Deps } from '../deps.ts'
import { DatabaseError } from '../errors.ts'
import { indexEvents } from '../features/events/event-index.ts'
import { parseEventRow } from '../features/events/event-row.ts'
import { createIngest, type EventToStore } from '../features/events/ingest.ts'
import { eventToStore } from '../features/events/new-event.ts'
import { forgetOldEvents } from '../features/events/retention.ts'
import { createMetrics } from '../metrics.ts'
import { manualClock } from '../testing/clock.ts'
import type { Database, Statement } from './database.ts'
import { migrate } from './migrate.ts'
import { openPostgres } from './postgres.ts'

/** No channel accepts anything. */
const noAlerts = { statements: () => [], notify: () => {} }
const dayMs = 86_400_000
const startedAt = Date.UTC(2026, 0, 15, 12)
/** Timeout for everything that is expected to happen. */
const deadline = { timeout: 60_000, interval: 5 }

beforeEach(({ skip }) => {
  const missing = inject('postgresMissing')
  if (missing) skip(missing)
})

interface Opened extends AsyncDisposable {
  url: string
  database: Database
  clock: ReturnType<typeof manualClock>
  ingest: ReturnType<typeof createIngest>
  /** Announced events, in order. */
  announced: number[]
  /** A connection independent of the service, for transactions that block it. */
  outside: Client
  /** Reads committed rows over another connection. */
  rows<Row = Record<string, unknown>>(statement: string): Promise<Row[]>
}

async function connect(url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  // Some tests terminate the connection from the server's side.
  client.on('error', () => {})
  await client.connect()
  return client
}

/** Runs one statement outside the databases of the tests. */
async function administer(statement: string): Promise<void> {
  const client = await connect(inject('postgresUrl')!)
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

async function createDatabase(): Promise<{ name: string; url: string }> {
  const name = `wardline_${randomUUID().replaceAll('-', '')}`
  await administer(`create database ${name}`)
  const url = new URL(inject('postgresUrl')!)
  url.pathname = name
  return { name, url: url.href }
}

const dropDatabase = (name: string) => administer(`drop database if exists ${name} with (force)`)

/** Opens a database with the newest schema, or with that of a version. */
async function open(version?: number): Promise<Opened> {
  const { name, url } = await createDatabase()
  const clock = manualClock(startedAt)
  const database = await openPostgres(url)
  await migrate(database, clock.now(), version)
  await database.prepareDays(clock.now())
  const bus = createMemoryBus({ alone: false })
  const announced: number[] = []
  bus.onEvents((rows) => announced.push(...rows.map(({ seq }) => seq)), parseEventRow)
  const [outside, watcher] = await Promise.all([connect(url), connect(url)])
  return {
    url,
    database,
    clock,
    announced,
    outside,
    ingest: createIngest({ database, bus, clock, metrics: createMetrics() }, noAlerts),
    rows: async (statement) => (await watcher.query(statement)).rows,
    async [Symbol.asyncDispose]() {
      await Promise.all([outside.end(), watcher.end()])
      await database.close()
      await dropDatabase(name)
    },
  }
}

const event = (description: string, now = startedAt): EventToStore =>
  eventToStore({ severity: 'info', source: 'test', event_type: 'note', description }, null, now)

const raw = (text: string, ...parameters: unknown[]): Statement => CompiledQuery.raw(text, parameters)

const seqsOf = async ({ rows }: Opened) =>
  (await rows<{ seq: string }>('select seq from events order by seq')).map(({ seq }) => Number(seq))

const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1)

/** Waits until this many connections of the service wait for a lock. */
const untilBlocked = ({ rows }: Opened, count: number) =>
  vi.waitFor(
    async () =>
      expect(
        await rows(`select pid from pg_stat_activity where datname = current_database()
          and application_name like 'wardline %' and wait_event_type = 'Lock'`),
      ).toHaveLength(count),
    deadline,
  )

const faultOf = (work: Promise<unknown>) => work.then(() => undefined).catch((fault: unknown) => fault)

describe('the sequence of events', () => {
  // A reader that saw 2 before 1 would consider 1 lost, or never show it.
  it('is assigned in commit order: the second transaction waits for the commit of the first', async () => {
    await using opened = await open()
    const { outside, ingest, announced } = opened
    await outside.query('begin')
    await outside.query(`update counters set value = value + 1 where name = 'event_seq'`)
    await outside.query(`insert into events (seq, created_at, severity, class, source, event_type, id, description)
      values (1, ${startedAt}, 'info', 'none', 'test', 'note', 'first', 'first')`)
    const second = ingest.store([event('second')])
    await untilBlocked(opened, 1)
    expect(await seqsOf(opened)).toEqual([])
    expect(announced).toEqual([])
    await outside.query('commit')
    await second
    expect(announced).toEqual([2])
    expect(await opened.rows('select seq, description from events order by seq')).toEqual([
      { seq: '1', description: 'first' },
      { seq: '2', description: 'second' },
    ])
  })

  it('has no gap after a rollback', async () => {
    await using opened = await open()
    const { database, ingest } = opened
    const undone = database.db.transaction().execute(async (trx) => {
      await ingest.storeWithin(trx, [event('undone'), event('undone')])
      throw new Error('undone')
    })
    expect(await faultOf(undone)).toEqual(new Error('undone'))
    await ingest.store([event('kept')])
    expect(await seqsOf(opened)).toEqual([1])
  })

  it('never shows a reader a gap while two processes store events', async () => {
    await using opened = await open()
    const { clock, outside } = opened
    const other = await openPostgres(opened.url)
    const bus = createMemoryBus({ alone: false })
    const others = createIngest({ database: other, bus, clock, metrics: createMetrics() }, noAlerts)
    const ways = [
      (ingest: typeof others, _: Database) => ingest.store([event('one')]),
      (ingest: typeof others, _: Database) => ingest.store(upTo(7).map(() => event('many'))),
      (ingest: typeof others, _: Database) =>
        ingest.store([{ ...event('refused'), severity: 'nonsense' as never }]).catch(() => {}),
      (ingest: typeof others, { db }: Database) =>
        db.transaction().execute(async (trx) => (await ingest.storeWithin(trx, [event('within')]))()),
      (ingest: typeof others, { db }: Database) =>
        db
          .transaction()
          .execute(async (trx) => {
            await ingest.storeWithin(trx, [event('undone')])
            throw new Error('undone')
          })
          .catch(() => {}),
    ]
    let writing = true
    const reader = (async () => {
      for (let readings = 0; ; readings++) {
        const { rows } = await outside.query('select count(*)::integer as count, max(seq) as last from events')
        expect(Number(rows[0].last ?? 0)).toBe(rows[0].count)
        if (!writing) return readings
      }
    })()
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.nat(ways.length - 1), fc.boolean()), { maxLength: 40 }), async (chosen) => {
        await Promise.all(
          chosen.map(([way, isHere]) =>
            isHere ? ways[way]!(opened.ingest, opened.database) : ways[way]!(others, other),
          ),
        )
      }),
      { numRuns: 20 },
    )
    writing = false
    expect(await reader).toBeGreaterThan(10)
    const seqs = await seqsOf(opened)
    expect(seqs).toEqual(upTo(seqs.length))
    expect(await opened.rows(`select 1 from events where description in ('refused', 'undone')`)).toEqual([])
    await other.close()
  })
})

describe('a batch', () => {
  // One event that the database refuses must not fail the reports of other agents.
  it('that is refused is retried row by row, so that only the invalid row fails', async () => {
    await using opened = await open()
    const bad = { ...event('bad'), severity: 'nonsense' as never }
    const work = [event('a'), bad, event('b'), bad, event('c')].map((entry) => opened.ingest.store([entry]))
    const outcomes = await Promise.allSettled(work)
    expect(outcomes.map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
      'rejected',
      'fulfilled',
    ])
    expect((outcomes[1] as PromiseRejectedResult).reason).toMatchObject({ name: 'DatabaseError', constraint: true })
    expect(await seqsOf(opened)).toEqual([1, 2, 3])
    expect(await opened.rows('select sum(count)::integer as count from event_counts group by unit')).toEqual([
      { count: 3 },
      { count: 3 },
    ])
  })

  it('is all or nothing, and returns the rows of each statement with numbers as numbers', async () => {
    await using opened = await open()
    const { database } = opened
    const results = await database.batch([
      raw(`insert into job_runs values ('a', $1) returning *`, 2 ** 53 - 1),
      raw(`update job_runs set last_run_at = 7 where name = 'nobody'`),
      raw(`select count(*) as count, sum(last_run_at) as sum, null::text as nothing, true as flag from job_runs`),
    ])
    expect(results).toEqual([
      [{ name: 'a', last_run_at: 2 ** 53 - 1 }],
      [],
      [{ count: 1, sum: 2 ** 53 - 1, nothing: null, flag: true }],
    ])
    const halfGood = [raw(`insert into job_runs values ('b', 1)`), raw(`insert into job_runs values ('a', 2)`)]
    expect(await faultOf(database.batch(halfGood))).toMatchObject({ name: 'DatabaseError', constraint: true })
    expect(await opened.rows('select name from job_runs')).toEqual([{ name: 'a' }])
  })

  // Each transaction has locked what the other needs, and the server aborts one of them.
  it('that the server aborts because of a deadlock is retried and stored once', async () => {
    await using opened = await open()
    const { database, outside } = opened
    // Earlier than the default of one second; only a superuser may set it.
    const name = new URL(opened.url).pathname.slice(1)
    await outside.query(`alter database ${name} set deadlock_timeout = '20ms'`).catch(() => {})
    await outside.query(`insert into job_runs values ('a', 0), ('b', 0), ('gate', 0)`)
    const touch = (name: string) => raw('update job_runs set last_run_at = last_run_at + 1 where name = $1', name)
    await outside.query('begin')
    await outside.query(`update job_runs set last_run_at = 10 where name = 'gate'`)
    const work = [
      database.batch([touch('a'), touch('gate'), touch('b')]),
      database.batch([touch('b'), touch('gate'), touch('a')]),
    ]
    await untilBlocked(opened, 2)
    await outside.query('commit')
    await Promise.all(work)
    expect(await opened.rows('select name, last_run_at from job_runs order by name')).toEqual([
      { name: 'a', last_run_at: '2' },
      { name: 'b', last_run_at: '2' },
      { name: 'gate', last_run_at: '12' },
    ])
  })
})

describe('prepared statements', () => {
  // A pooler does this between two of its clients.
  it('are prepared again on every connection that lost them', async () => {
    await using opened = await open()
    const { database, ingest, outside } = opened
    const count = raw(`update counters set value = value where name = 'event_seq' returning value`)
    /** Four statements blocked by one lock, which need a connection each. */
    async function onFourConnections(...statements: Statement[]): Promise<void> {
      await outside.query('begin')
      await outside.query('lock table counters')
      const work = upTo(4).map(() => database.batch(statements))
      await untilBlocked(opened, 4)
      await outside.query('commit')
      await Promise.all(work)
    }
    await onFourConnections(count)
    await ingest.store([event('before')])
    await onFourConnections(count, raw('deallocate all'))
    await onFourConnections(count)
    // Affects one connection only, and cannot be part of a larger transaction.
    await database.batch([raw('discard all')])
    await ingest.store([event('after')])
    expect(await seqsOf(opened)).toEqual([1, 2])
  })

  it('survive an error, and a migration that changes their result columns', async () => {
    await using opened = await open()
    const { database } = opened
    const all = raw('select * from job_runs')
    await database.batch([all])
    await faultOf(database.batch([all, raw('select 1 / 0')]))
    expect(await database.batch([all])).toEqual([[]])
    await opened.outside.query(`alter table job_runs add column note text default 'new'`)
    await opened.outside.query(`insert into job_runs values ('a', 1)`)
    expect(await database.batch([all])).toEqual([[{ name: 'a', last_run_at: 1, note: 'new' }]])
  })
})

/** Sends statements like a batch but without the final Sync, like a process paused while sending. */
async function sendHalf(url: string, text: string): Promise<Client> {
  const client = new Client({ connectionString: url, application_name: 'wardline writes' })
  client.on('error', () => {})
  await client.connect()
  const wire = (client as unknown as { connection: Record<string, (...given: unknown[]) => void> }).connection
  wire.parse!({ name: '', text })
  wire.bind!({ statement: '', values: [] })
  wire.execute!({ portal: '', rows: 0 })
  wire.flush!()
  return client
}

describe('a process that is paused', () => {
  // Otherwise all events and kills of all processes would wait until an operator finds the frozen machine.
  it('in the middle of sending a batch is disconnected, and waiting statements continue', async () => {
    await using opened = await open()
    const paused = await sendHalf(opened.url, 'update counters set value = value + 100')
    const ended = new Promise((resolve) => paused.once('end', resolve))
    await vi.waitFor(
      async () =>
        expect(
          await opened.rows(`select pid from pg_stat_activity where datname = current_database()
            and application_name = 'wardline writes' and xact_start is not null and wait_event = 'ClientRead'`),
        ).toHaveLength(1),
      deadline,
    )
    await opened.ingest.store([event('waits')])
    expect(await seqsOf(opened)).toEqual([1])
    await ended
  })

  // An operator may run a query with the same credentials and leave the transaction open.
  it('is not confused with a person whose transaction is open', async () => {
    await using opened = await open()
    const { outside, ingest } = opened
    await outside.query('begin')
    await outside.query('lock table counters')
    expect(await faultOf(ingest.store([event('blocked')]))).toMatchObject({ busy: true })
    expect((await outside.query('select 1 as still')).rows).toEqual([{ still: 1 }])
    await outside.query('rollback')
  })
})

describe('a server that fails', () => {
  it('to get a lock in time causes a DatabaseError, and no abandoned statement keeps running', async () => {
    await using opened = await open()
    const { database, outside, ingest } = opened
    await outside.query('begin')
    await outside.query('lock table counters')
    const work = [
      ingest.store([event('blocked')]),
      database.db.updateTable('counters').set({ value: 7 }).execute(),
      database.db.transaction().execute((trx) => trx.updateTable('counters').set({ value: 8 }).execute()),
      database.db.selectFrom('counters').selectAll().execute(),
    ]
    for (const fault of await Promise.all(work.map(faultOf))) {
      expect(fault).toBeInstanceOf(DatabaseError)
      expect(fault).toMatchObject({ constraint: false })
    }
    await untilBlocked(opened, 0)
    await outside.query('commit')
    await ingest.store([event('after')])
    expect(await opened.rows(`select value from counters where name = 'event_seq'`)).toEqual([{ value: '1' }])
  })

  it('by closing connections only affects their users, and the next caller gets a new connection', async () => {
    await using opened = await open()
    const { database, outside, ingest } = opened
    const endAll = () =>
      outside.query(`select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name like 'wardline %'`)
    await Promise.all(upTo(4).map(() => database.db.selectFrom('counters').selectAll().execute()))
    await endAll()
    const inTransaction = database.db.transaction().execute(async (trx) => {
      await trx.updateTable('counters').set({ value: 9 }).execute()
      await endAll()
      await vi.waitFor(async () => {
        const { rows } = await outside.query(`select 1 from pg_stat_activity
          where datname = current_database() and application_name like 'wardline %'`)
        expect(rows).toEqual([])
      }, deadline)
      await trx.updateTable('counters').set({ value: 10 }).execute()
    })
    expect(await faultOf(inTransaction)).toBeInstanceOf(DatabaseError)
    await outside.query('begin')
    await outside.query('lock table counters')
    const underWay = faultOf(ingest.store([event('cut')]))
    await untilBlocked(opened, 1)
    await endAll()
    expect(await underWay).toBeInstanceOf(DatabaseError)
    await outside.query('commit')
    await ingest.store([event('after')])
    expect(await seqsOf(opened)).toEqual([1])
  })
})

describe('an incompatible server is refused', () => {
  const open = async (change: (name: string) => string[]) => {
    const { name, url } = await createDatabase()
    try {
      const client = await connect(url)
      for (const statement of change(name)) await client.query(statement)
      await client.end()
      const opened = await openPostgres(url).catch((fault: Error) => fault)
      if (opened instanceof Error) return opened.message
      await opened.close()
      return 'opened'
    } finally {
      await dropDatabase(name)
    }
  }
  /** Shadows a function by which the service checks the server, to make the server claim other properties. */
  const claims = (name: string, definition: string) => [
    'create schema claimed',
    `create function claimed.${definition}`,
    `alter database ${name} set search_path = claimed, pg_catalog`,
  ]

  it('unless it meets all requirements', async () => {
    expect(await open(() => [])).toBe('opened')
  })

  // A 201 means "on disk": anything less would lose acknowledged events when the power fails.
  it('if it confirms commits before they are on disk', async () => {
    expect(await open((name) => [`alter database ${name} set synchronous_commit = off`])).toBe(
      'The database cannot be used: PostgreSQL runs with synchronous_commit = off: set it to on for the database of Wardline.',
    )
    expect(await open((name) => [`alter role current_user in database ${name} set synchronous_commit = off`])).toMatch(
      /synchronous_commit = off/,
    )
  })

  it('if it is too old', async () => {
    const old = `current_setting(text) returns text language sql as
      $$ select case $1 when 'server_version_num' then '140011' when 'server_version' then '14.11' else 'on' end $$`
    expect(await open((name) => claims(name, old))).toBe(
      'The database cannot be used: PostgreSQL 14.11 is too old; 15 or newer is needed.',
    )
  })

  it('if it is a standby', async () => {
    const standby = `pg_is_in_recovery() returns boolean language sql as 'select true'`
    expect(await open((name) => claims(name, standby))).toBe(
      'The database cannot be used: This PostgreSQL server is a standby: give the address of the primary.',
    )
  })
})

describe('the event index', () => {
  // Each statement of a transaction sees what was committed before that statement. A place taken from the log after the
  // entries were read would pass over the events stored in between, and no list by agent or type would show them again.
  it('contains the events that are stored while it is extended', async () => {
    await using opened = await open()
    const { outside, ingest, database, rows } = opened
    const store = (description: string) => ingest.store([{ ...event(description), instance_id: 'agent-1' }])
    await store('before')
    await outside.query('begin')
    await outside.query(`insert into event_refs (kind, value, seq) values ('instance', 'agent-1', 1)`)
    const extended = indexEvents(database)
    await untilBlocked(opened, 1)
    await store('during')
    await outside.query('rollback')
    await extended
    await indexEvents(database)
    expect(await rows(`select seq from event_refs where kind = 'instance' order by seq`)).toEqual([
      { seq: '1' },
      { seq: '2' },
    ])
  })

  it('is extended by several processes at once, each event once', async () => {
    await using opened = await open()
    const { ingest, database, rows } = opened
    for (let round = 0; round < 20; round++) {
      const storing = upTo(20).map((n) => ingest.store([{ ...event(`${round}-${n}`), instance_id: 'agent-1' }]))
      await Promise.all([...storing, indexEvents(database), indexEvents(database), indexEvents(database)])
    }
    await indexEvents(database)
    expect(
      await rows(
        `select count(*)::integer as count, max(seq)::integer as last from event_refs where kind = 'instance'`,
      ),
    ).toEqual([{ count: 400, last: 400 }])
  })
})

describe('the partitions of events', () => {
  const partitions = ({ rows }: Opened) =>
    rows<{ name: string; count: number }>(`select relname as name from pg_inherits
      join pg_class on pg_class.oid = inhrelid where inhparent = 'events'::regclass order by relname`).then((found) =>
      found.map(({ name }) => name),
    )
  const whereIs = async ({ rows }: Opened, description: string) =>
    (await rows<{ name: string }>(
      `select tableoid::regclass::text as name from events where description = '${description}'`,
    ))!.map(({ name }) => name)
  const days = (from: string, count: number) =>
    upTo(count).map((day) => {
      const date = new Date(Date.parse(from) + (day - 1) * dayMs)
      return `events_${date.toISOString().slice(0, 10).replaceAll('-', '')}`
    })
  const forget = async ({ database, clock }: Opened) => {
    await indexEvents(database)
    const config = readConfig({ WARDLINE_RETENTION_DAYS: '30' })
    await forgetOldEvents({ config, database, clock } as unknown as Deps)
  }

  it('are created from yesterday to a week ahead, and further ones as time passes', async () => {
    await using opened = await open()
    const { database, clock } = opened
    expect(await partitions(opened)).toEqual([...days('2026-01-14', 9), 'events_otherwise'])
    await database.prepareDays(clock.now())
    expect(await partitions(opened)).toHaveLength(10)
    clock.advance(3 * dayMs)
    await Promise.all(upTo(3).map(() => database.prepareDays(clock.now())))
    expect(await partitions(opened)).toEqual([...days('2026-01-14', 12), 'events_otherwise'])
  })

  // A dump locks every partition for its whole duration.
  it('of future days may wait for a dump, without preventing a service from starting', async () => {
    await using opened = await open()
    const { database, clock, outside, ingest } = opened
    await outside.query('begin')
    await outside.query('select * from events')
    clock.advance(dayMs)
    await database.prepareDays(clock.now())
    expect(await partitions(opened)).toHaveLength(10)
    await ingest.store([event('taken')])
    await outside.query('commit')
    await database.prepareDays(clock.now())
    expect(await partitions(opened)).toHaveLength(11)
  })

  it('are dropped only after their day has expired, together with its index entries', async () => {
    await using opened = await open()
    const { clock, ingest } = opened
    clock.jump(Date.UTC(2026, 0, 16) - 1 - clock.now())
    await ingest.store([{ ...event('last of its day'), instance_id: 'agent-1' }])
    clock.advance(1)
    await ingest.store([{ ...event('first of the next'), instance_id: 'agent-1' }])
    expect(await whereIs(opened, 'last of its day')).toEqual(['events_20260115'])
    expect(await whereIs(opened, 'first of the next')).toEqual(['events_20260116'])

    clock.advance(30 * dayMs - 1)
    await forget(opened)
    expect(await seqsOf(opened)).toEqual([1, 2])
    clock.advance(1)
    await forget(opened)
    expect(await seqsOf(opened)).toEqual([2])
    expect(await partitions(opened)).not.toContain('events_20260115')
    expect(await partitions(opened)).toContain('events_20260116')
    expect(await opened.rows('select distinct seq from event_refs')).toEqual([{ seq: '2' }])
  })

  it('are kept while in use, without blocking writers, and dropped later', async () => {
    await using opened = await open()
    const { clock, ingest, outside } = opened
    await ingest.store([event('old')])
    clock.advance(40 * dayMs)
    await opened.database.prepareDays(clock.now())
    await outside.query('begin')
    await outside.query('select * from events')
    const fault = await faultOf(forget(opened))
    expect(fault).toBeInstanceOf(DatabaseError)
    await ingest.store([event('new')])
    await outside.query('commit')
    await forget(opened)
    expect(await seqsOf(opened)).toEqual([2])
  })

  // A fast clock must not make the service refuse reports, or refuse to start when that day comes.
  it('accept events that a wrong clock dates into the far future, which are listed and expire in time', async () => {
    await using opened = await open()
    const { database, clock, ingest } = opened
    const far = clock.now() + 60 * dayMs
    clock.jump(60 * dayMs)
    await ingest.store([event('from the future')])
    clock.jump(-60 * dayMs)
    expect(await whereIs(opened, 'from the future')).toEqual(['events_otherwise'])

    for (; clock.now() <= far + dayMs; clock.advance(dayMs)) {
      await database.prepareDays(clock.now())
      await ingest.store([event('of its day')])
      await forget(opened)
    }
    expect(await whereIs(opened, 'from the future')).toEqual(['events_otherwise'])
    clock.advance(31 * dayMs)
    await forget(opened)
    expect(await whereIs(opened, 'from the future')).toEqual([])
    await ingest.store([event('still taken')])
  })
})

describe('values', () => {
  const awkward = fc.constantFrom(
    'NULL',
    'null',
    '',
    ' ',
    '{}',
    '{',
    '}',
    ',',
    '"',
    '\\',
    '\\"',
    "'",
    '\n',
    '\r\n',
    '\t',
  )
  const piece = fc.oneof(awkward, fc.string({ unit: 'grapheme' }), fc.constantFrom('\u2028', '🦊', 'é', 'ﷺ', '\u0001'))
  const text = fc
    .array(piece, { maxLength: 6 })
    .map((pieces) => pieces.join(''))
    // PostgreSQL texts cannot contain NUL; reports with one are refused earlier.
    .filter((joined) => !joined.includes('\0'))

  it('of events are read as they were stored, whatever the text', async () => {
    await using opened = await open()
    const { database, ingest } = opened
    const optional = fc.option(text, { nil: null })
    const row = fc.record({ description: text, source: text, session_id: optional, metadata: optional })
    await fc.assert(
      fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 20 }), async (given) => {
        const before = (await seqsOf(opened)).length
        await ingest.store(given.map((fields) => ({ ...event(''), ...fields })))
        const stored = await database.db
          .selectFrom('events')
          .select(['description', 'source', 'session_id', 'metadata'])
          .where('seq', '>', before)
          .orderBy('seq')
          .execute()
        expect(stored).toEqual(given)
      }),
      { numRuns: 60 },
    )
  })

  it('of a row source over JSON are read as given, with their ordinal', async () => {
    await using opened = await open()
    const { db, dialect } = opened.database
    const columns = { label: 'text', count: 'bigint', share: 'double' } as const
    const share = fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0)
    const row = fc.record({ label: fc.option(text, { nil: null }), count: fc.maxSafeInteger(), share })
    await fc.assert(
      fc.asyncProperty(fc.array(row, { maxLength: 20 }), async (given) => {
        const json = JSON.stringify(given.map(({ label, count, share }) => [label, count, share]))
        const source = dialect.rowsFromJson(json, columns)
        const { rows } = await sql`select * from ${source} as batch order by ordinal`.execute(db)
        expect(rows).toEqual(given.map((fields, ordinal) => ({ ordinal, ...fields })))
      }),
      { numRuns: 60 },
    )
  })
})

// Otherwise writers waiting for a lock, or a flood of writes, would use every connection.
it('reserves a connection for control', async () => {
  await using opened = await open()
  await opened.outside.query(`begin; update counters set value = 1 where name = 'alert_seq'`)
  const blocked = raw(`update counters set value = value + 1 where name = 'alert_seq'`)
  const writes = Array.from({ length: 20 }, () => opened.database.batch([blocked]).catch(() => {}))
  const control = raw(`update counters set value = 7 where name = 'alert_config' returning value`)
  expect(await opened.database.batch([control], { isControl: true })).toEqual([[{ value: 7 }]])
  await opened.outside.query('rollback')
  await Promise.all(writes)
})

describe('migrating the schema', () => {
  /** Resolves once a change waits for a lock and this was applied to its connection. */
  const whenWaiting = ({ rows }: Opened, deed = 'pid') =>
    vi.waitFor(async () => {
      const found = await rows(`select ${deed} from pg_stat_activity where datname = current_database()
          and application_name = 'wardline migration' and wait_event_type = 'Lock'`)
      expect(found).toHaveLength(1)
    }, deadline)
  /** Stores an event like a process of the previous version, whose statements time out after 1.5 seconds. */
  const write = ({ database }: Opened, seq: number) =>
    database.batch([
      raw(
        `insert into events (seq, created_at, severity, class, source, event_type, id, description)
          values ($1, $2, 'info', 'none', 'test', 'note', $3, 'x')`,
        seq,
        startedAt,
        `new-${seq}`,
      ),
    ])
  const newestVersion = async ({ rows }: Opened) =>
    (await rows<{ version: number }>('select max(version) as version from schema_version'))[0]!.version

  // Otherwise an alter that waits for a long reader would block every writer until that reader ends.
  it('delays writers for less than their timeout, however long a lock is unavailable', async () => {
    await using opened = await open(4)
    await opened.outside.query('begin; lock table events in access share mode')
    let isOver = false
    const migrated = migrate(opened.database, startedAt, 5).finally(() => {
      isOver = true
    })
    for (let seq = 1; seq <= 3; seq++) {
      await whenWaiting(opened)
      await write(opened, seq)
    }
    expect([isOver, await newestVersion(opened)]).toEqual([false, 4])
    await opened.outside.query('commit')
    await migrated
    expect(await newestVersion(opened)).toBe(5)
    expect(await seqsOf(opened)).toEqual([1, 2, 3])
  })

  it('marks old events of the service during writes, and resumes after a crash', async () => {
    await using opened = await open(10)
    const type = `case when n % 80 = 0 then 'instance_offline' else 'tool_call' end`
    await opened.outside.query(`
      insert into events (seq, created_at, severity, class, source, event_type, id, description)
        select n, ${startedAt} + n % 2 * ${dayMs}, 'info', 'none', 'wardline', ${type}, 'id-' || n, 'x'
        from generate_series(1, 100000) as n;
      insert into event_refs (kind, value, seq) select 'type', ${type}, n from generate_series(1, 99200) as n;
      update counters set value = 100000 where name = 'event_seq';
      update counters set value = 99200 where name = 'indexed_seq'`)
    const marked = async () => Number((await opened.rows('select sum(by_service) as marked from events'))[0]!.marked)
    await opened.outside.query('begin; select 1 from events where seq = 60000 for update')
    const cut = migrate(opened.database, startedAt).catch((fault: unknown) => fault)
    await whenWaiting(opened)
    await write(opened, 100_001)
    await whenWaiting(opened, 'pg_terminate_backend(pid)')
    expect(await cut).toBeInstanceOf(DatabaseError)
    await opened.outside.query('commit')
    // Ten of the last rows, which are not in the index of types, and the first page of indexed rows.
    expect([await newestVersion(opened), await marked()]).toEqual([10, 510])
    await migrate(opened.database, startedAt)
    expect(await newestVersion(opened)).toBeGreaterThanOrEqual(11)
    expect(await marked()).toBe(1_250)
  })
})

it('leaves backups to PostgreSQL', async () => {
  await using opened = await open()
  await expect(opened.database.backup('/nonexistent')).rejects.toThrow(
    'Back up PostgreSQL with its own tools, such as pg_dump.',
  )
})
