import { afterEach, beforeEach, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'
import {
  type Action,
  auditManyStatements,
  channelActor,
  channelName,
  lastActors,
  localActor,
  recordAction,
  verifyAudit,
} from './audit.ts'
import { countControlChanges, readControlChanges } from './control-changes.ts'

let service: TestService
beforeEach(async () => {
  service = await openTestService()
})
afterEach(() => service[Symbol.asyncDispose]())

const pressed = channelActor('ops', '203.0.113.7', 'request-1')
const rows = () => service.rows('select * from audit_log order by seq')

async function appendMany(targets: string[], shared: { action: string; reason?: string }, actor = pressed) {
  const { database, clock } = service.deps
  const changes = targets.map((target, place) => ({
    target,
    before: { version: place },
    after: { version: place + 1 },
  }))
  await database.batch(auditManyStatements(database, actor, shared, changes, clock.now()))
}

async function appendOne(action: string, target: string, after: Action['after']) {
  const { database, clock } = service.deps
  const entry = { action, target, before: null, after }
  await database.db.transaction().execute((trx) => recordAction(database, trx, localActor('cli'), entry, clock.now()))
}

const noNames = { names: async () => new Map<string, string>() }

it('many entries are one chain, in the order given, each with what all share', async () => {
  await appendOne('instance.suspend', 'first', null)
  await appendMany(['b', 'a', 'c'], { action: 'instance.suspend', reason: 'A “quoted” 🦀 reason' })
  await appendMany(['d'], { action: 'instance.resume' })
  const at = service.clock.now()
  const shared = { at, actor: 'channel:ops', scope: 'channel', ip: '203.0.113.7', request_id: 'request-1' }
  expect(await rows()).toMatchObject([
    { seq: 1, target: 'first', actor: 'cli', scope: 'local', ip: null, request_id: null, reason: null },
    ...['b', 'a', 'c'].map((target, place) => ({
      ...shared,
      seq: place + 2,
      target,
      action: 'instance.suspend',
      reason: 'A “quoted” 🦀 reason',
      before: JSON.stringify({ version: place }),
      after: JSON.stringify({ version: place + 1 }),
    })),
    { ...shared, seq: 5, target: 'd', action: 'instance.resume', reason: null },
  ])
  expect(await verifyAudit(service.deps.database)).toMatchObject({ ok: true, headSeq: 5 })
})

it('no entries change nothing', async () => {
  await appendOne('key.create', 'k', null)
  await appendMany([], { action: 'instance.suspend' })
  expect(await rows()).toHaveLength(1)
  expect(await verifyAudit(service.deps.database)).toMatchObject({ ok: true, headSeq: 1 })
})

it('a channel is named in the log, and shown as one', () => {
  expect(pressed).toEqual({
    keyId: 'channel:ops',
    name: 'ops',
    scope: 'channel',
    ip: '203.0.113.7',
    requestId: 'request-1',
  })
  expect(channelName(pressed.keyId)).toBe('ops (channel)')
  expect(channelName('ops')).toBeUndefined()
})

it('the last actor of an action is found for each target that has one', async () => {
  await appendMany(['a', 'b'], { action: 'instance.suspend' })
  await appendOne('instance.suspend', 'a', null)
  await appendOne('instance.resume', 'b', null)
  await appendMany(['c'], { action: 'instance.suspend' })
  const { db } = service.deps.database
  const found = await lastActors(db, 'instance.suspend', ['a', 'b', 'unknown'])
  expect([...found]).toEqual(
    expect.arrayContaining([
      ['a', 'cli'],
      ['b', 'channel:ops'],
    ]),
  )
  expect(found.size).toBe(2)
  expect(await lastActors(db, 'instance.suspend', [])).toEqual(new Map())
})

it('an entry without a readable version is listed with 0', async () => {
  const states: Action['after'][] = [{ version: 7 }, { version: -1 }, { version: '7' }, { version: 1.5 }, {}, null]
  for (const after of states) {
    await appendOne('instance.suspend', 'bot', after)
  }
  const { db } = service.deps.database
  const changes = await readControlChanges(db, noNames, { target: 'bot' }, 'oldest', 10)
  expect(changes.map(({ version }) => version)).toEqual([7, 0, 0, 0, 0, 0])
  await service.execute(`create table edited_log as select * from audit_log`)
  await service.execute(`alter table audit_log rename to guarded_log; alter table edited_log rename to audit_log;
    update audit_log set after = '{' where seq = 1; update audit_log set after = null where seq = 2`)
  const [first, second] = await readControlChanges(db, noNames, { target: 'bot' }, 'oldest', 2)
  expect([first, second]).toMatchObject([
    { kind: 'control', action: 'suspend', actor: 'cli', actor_name: null, reason: null, version: 0 },
    { version: 0 },
  ])
})

it('kills and resumes are counted from a time until before another', async () => {
  const start = service.clock.now()
  await appendOne('instance.suspend', 'bot', { version: 1 })
  service.clock.advance(1_000)
  await appendOne('instance.resume', 'bot', { version: 2 })
  await appendOne('instance.suspend', 'other', { version: 1 })
  await appendOne('key.create', 'bot', null)
  service.clock.advance(1_000)
  await appendOne('instance.suspend', 'bot', { version: 3 })
  const count = (from: number, to: number) => countControlChanges(service.deps.database.db, { from, to, target: 'bot' })
  expect(await count(start, start + 2_001)).toBe(3)
  expect(await count(start, start + 2_000)).toBe(2)
  expect(await count(start + 1_000, start + 2_000)).toBe(1)
  expect(await count(start + 1, start + 1_000)).toBe(0)
})

// An attacker deletes the recorded end, so that a cut tail could not be compared with it.
it('a missing end of the log is found by verification', async () => {
  await appendOne('key.create', 'k', null)
  await service.execute(`create table edited_head as select * from audit_head; alter table audit_head rename to guarded_head;
    alter table edited_head rename to audit_head; delete from audit_head`)
  expect(await verifyAudit(service.deps.database)).toEqual({
    ok: false,
    reason: 'tampered',
    seq: 2,
    detail: 'The stored end of the log is missing.',
  })
})
