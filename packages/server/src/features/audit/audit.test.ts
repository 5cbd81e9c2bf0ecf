import { type Checkpoint, chainText } from '@wardline/contract'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { anyCharacter } from '../../../../../test-servers/any-character.ts'
import type { Db } from '../../db/database.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import {
  type Action,
  type Actor,
  auditCheckpoint,
  auditStatements,
  localActor,
  recordAction,
  verifyAudit,
} from './audit.ts'
import { sha256Hex } from './chain.ts'

/** Opens a service with six audit entries. */
async function openWithHistory(): Promise<TestService> {
  const opened = await openTestService()
  await opened.call('POST', '/api/heartbeat', { body: { instance_id: 'bot', name: 'bot' } })
  for (let count = 1; count <= 3; count++) {
    opened.clock.advance(1_000)
    await opened.call('POST', '/api/kill/bot', { body: { reason: `reason ${count} “quoted” 🦀` } })
    await opened.call('POST', '/api/resume/bot')
  }
  return opened
}

let service: TestService
beforeAll(async () => {
  service = await openWithHistory()
})
afterAll(() => service[Symbol.asyncDispose]())

const verify = (checkpoint?: Checkpoint) => verifyAudit(service.deps.database, checkpoint)

describe('verification detects', () => {
  /** Each test alters and restores its log. A copy without triggers replaces the table, which forbids changes. */
  let spoilt: TestService
  beforeAll(async () => {
    spoilt = await openWithHistory()
    await spoilt.execute(`alter table audit_log rename to guarded_log;
      create table audit_log as select * from guarded_log;
      create table sound_log as select * from audit_log; create table sound_head as select * from audit_head`)
  })
  afterAll(() => spoilt[Symbol.asyncDispose]())

  /**
   * Verifies the log after an attacker with database access ran the statements, and the service then ran
   * `afterwards`.
   */
  async function verifyTampered(
    statements: string[],
    { checkpoint, afterwards }: { checkpoint?: Checkpoint; afterwards?: (db: Db) => Promise<void> } = {},
  ) {
    const mend = ['log', 'head'].map(
      (table) => `delete from audit_${table}; insert into audit_${table} select * from sound_${table}`,
    )
    await spoilt.execute([...mend, ...statements].join(';'))
    await afterwards?.(spoilt.deps.database.db)
    return verifyAudit(spoilt.deps.database, checkpoint)
  }

  // An attacker with write access to the database changes the record of a kill.
  it.each([
    ['reason', `update audit_log set reason = 'other' where seq = 3`],
    ['actor', `update audit_log set actor = 'nobody' where seq = 3`],
    ['time', 'update audit_log set at = at + 1 where seq = 3'],
    ['address', 'update audit_log set ip = null where seq = 3'],
    ['state after', `update audit_log set after = '{"suspended":false,"version":3}' where seq = 3`],
    ['state after, made unreadable', `update audit_log set after = '{' where seq = 3`],
    // Equal as parsed values, but not for another reader of the database.
    ['state before, with white space', `update audit_log set before = ' ' || before where seq = 3`],
    [
      'state before, with another value of a key in front',
      `update audit_log set before = '{"version":9,' || substr(before, 2) where seq = 3`,
    ],
    ['hash', `update audit_log set hash = '${'0'.repeat(64)}' where seq = 3`],
  ])('an edited %s', async (_field, statement) => {
    expect(await verifyTampered([statement])).toMatchObject({ ok: false, reason: 'tampered', seq: 3 })
  })

  it('a state that is NULL instead of the text null', async () => {
    const action = { action: 'key.create', target: 'k', before: null, after: null }
    const afterwards = async (db: Db) => {
      const { database, clock } = spoilt.deps
      await db.transaction().execute((trx) => recordAction(database, trx, localActor('system'), action, clock.now()))
      await spoilt.execute('update audit_log set before = null where seq = 7')
    }
    expect(await verifyTampered([], { afterwards })).toMatchObject({ ok: false, reason: 'tampered', seq: 7 })
  })

  it('a deleted row', async () => {
    expect(await verifyTampered(['delete from audit_log where seq = 2'])).toMatchObject({
      ok: false,
      reason: 'tampered',
      seq: 2,
    })
  })

  it('a deleted row if the later rows are renumbered', async () => {
    expect(
      await verifyTampered(['delete from audit_log where seq = 2', 'update audit_log set seq = seq - 1 where seq > 2']),
    ).toMatchObject({ ok: false, reason: 'tampered', seq: 2 })
  })

  it('two swapped rows', async () => {
    expect(
      await verifyTampered([
        'update audit_log set seq = 100 where seq = 2',
        'update audit_log set seq = 2 where seq = 4',
        'update audit_log set seq = 4 where seq = 100',
      ]),
    ).toMatchObject({ ok: false, reason: 'tampered', seq: 2 })
  })

  it('a cut tail, by the recorded head', async () => {
    expect(await verifyTampered(['delete from audit_log where seq > 4'])).toMatchObject({
      ok: false,
      reason: 'cut',
      seq: 5,
    })
  })

  // An attacker who cuts the tail and corrects the head leaves a log that is consistent in itself.
  it('a cut tail with a corrected head, only by a checkpoint stored elsewhere', async () => {
    await verifyTampered([])
    const checkpoint = await auditCheckpoint(spoilt.deps.database.db, spoilt.clock.now())
    const cut = [
      'delete from audit_log where seq > 4',
      'update audit_head set seq = 4, hash = (select hash from audit_log where seq = 4)',
    ]
    expect(await verifyTampered(cut)).toMatchObject({ ok: true, headSeq: 4 })
    expect(await verifyTampered(cut, { checkpoint })).toMatchObject({ ok: false, reason: 'cut', seq: 5 })
  })

  it('an edited row after which the service appended another', async () => {
    const afterwards = (db: Db) =>
      db.transaction().execute((trx) => {
        const action = { action: 'instance.suspend', target: 'bot', before: null, after: null }
        return recordAction(spoilt.deps.database, trx, localActor('system'), action, spoilt.clock.now())
      })
    const edit = `update audit_log set reason = 'other' where seq = 6`
    expect(await verifyTampered([edit], { afterwards })).toMatchObject({ ok: false, reason: 'tampered', seq: 6 })
    expect(await verifyTampered([], { afterwards })).toMatchObject({ ok: true, headSeq: 7 })
  })

  const forgedAs = (seq: string, hash = 'prev_hash, hash', of = 1) =>
    `insert into audit_log select ${seq}, at, actor, scope, ip, action, 'FORGED', before, after, reason, request_id, ${hash}
      from audit_log where seq = ${of}`

  // Lists would show them as entries, and no hash covers them.
  it.each(['0', '-1', '-9007199254740991'])('a forged row before the first entry, with seq %s', async (seq) => {
    expect(await verifyTampered([forgedAs(seq)])).toEqual({
      ok: false,
      reason: 'tampered',
      seq: 1,
      detail: `Entry ${Number(seq).toLocaleString('en')} is outside the chain, in the place of entry 1: it was added.`,
    })
  })

  it('a second row with the seq of an entry, and one without a seq', async () => {
    expect(await verifyTampered([forgedAs('4', 'prev_hash, hash', 4)])).toMatchObject({
      ok: false,
      reason: 'tampered',
      detail: 'Entry 4 is outside the chain, in the place of entry 5: it was added.',
    })
    expect(await verifyTampered([forgedAs('null')])).toMatchObject({ ok: false, reason: 'tampered' })
  })

  // A writer who computes hashes can append a valid entry; the service also moves the recorded end.
  it('a forged row at the end with a valid hash', async () => {
    const entry = {
      at: 1,
      actor: 'x',
      scope: '',
      ip: null,
      action: 'key.create',
      target: null,
      before: null,
      after: null,
    }
    const { hash: previous } = await auditCheckpoint(spoilt.deps.database.db, 0)
    const hash = sha256Hex(chainText({ ...entry, seq: 7, reason: null, request_id: null }, previous))
    const row = `7, 1, 'x', '', null, 'key.create', null, 'null', 'null', null, null, '${previous}', '${hash}'`
    expect(await verifyTampered([`insert into audit_log select ${row}`])).toEqual({
      ok: false,
      reason: 'tampered',
      seq: 7,
      detail: '6 entries were written, but the table has 7 rows. Entry 7 was added outside the service.',
    })
  })

  it('a forged row at the end', async () => {
    expect(
      await verifyTampered([
        `insert into audit_log select 7, at, actor, scope, ip, action, target, before, after, reason, request_id, hash, hash
      from audit_log where seq = 6`,
      ]),
    ).toMatchObject({ ok: false, reason: 'tampered', seq: 7 })
  })
})

describe('the view of the audit chain', () => {
  interface Chain {
    length: number
    head_hash: string
    checkpoint: { seq: number; hash: string } | null
    verification: { result: string; entries: number; fault_seq: number | null; detail: string | null } | null
  }
  const chainOf = async ({ call }: TestService) => (await call<Chain>('GET', '/api/audit/chain')).body

  it('contains its length, last checkpoint and last verification, for admins only', async () => {
    await using opened = await openWithHistory()
    const { chainWatch } = opened.services
    expect(await chainOf(opened)).toMatchObject({ length: 6, checkpoint: null, verification: null })
    await chainWatch.writeCheckpoint()
    await chainWatch.writeCheckpoint()
    await chainWatch.verify()
    const { head_hash, checkpoint, verification } = await chainOf(opened)
    expect(checkpoint).toMatchObject({ seq: 6, hash: head_hash })
    expect(verification).toMatchObject({ result: 'intact', entries: 6, fault_seq: null, detail: null })
    expect(opened.logged.filter((line) => line.includes(`seq=6 hash=${head_hash}`))).toHaveLength(1)
    const { key } = await opened.createKey('operator')
    expect((await opened.call('GET', '/api/audit/chain', { key })).status).toBe(403)
  })

  // A manipulated record of a kill must reach people, not only the service log.
  it('contains the altered entry, which is also reported as a breach once a day', async () => {
    await using opened = await openWithHistory()
    const { chainWatch } = opened.services
    await opened.execute(`alter table audit_log rename to guarded_log;
      create table audit_log as select * from guarded_log;
      update audit_log set reason = 'other' where seq = 3`)
    const breaches = async () =>
      (await opened.call<{ events: object[] }>('GET', '/api/events?event_type=audit_altered')).body.events
    for (let hour = 0; hour < 3; hour++) {
      await expect(chainWatch.verify()).rejects.toThrow('Entry 3 does not match its hash')
      opened.clock.advance(3_600_000)
    }
    expect(await breaches()).toMatchObject([{ severity: 'breach', by_service: true, metadata: { seq: 3 } }])
    expect((await chainOf(opened)).verification).toMatchObject({ result: 'tampered', entries: 2, fault_seq: 3 })
    opened.clock.advance(24 * 3_600_000)
    await expect(chainWatch.verify()).rejects.toThrow()
    expect(await breaches()).toHaveLength(2)
  })

  // An attacker who cuts the tail and corrects the head leaves a log that is consistent in itself.
  it('contains a cut that only the last checkpoint of the process reveals', async () => {
    await using opened = await openWithHistory()
    const { chainWatch } = opened.services
    await chainWatch.writeCheckpoint()
    await opened.execute(`alter table audit_log rename to guarded_log;
      create table audit_log as select * from guarded_log where seq < 5;
      update audit_head set seq = 4, hash = (select hash from audit_log where seq = 4)`)
    await expect(chainWatch.verify()).rejects.toThrow('the tail was cut off')
    expect((await chainOf(opened)).verification).toMatchObject({ result: 'cut', fault_seq: 5 })
  })
})

// A forged row could otherwise pass for a record of someone's kill or resume.
it('rows before the first entry are in no list', async () => {
  await using opened = await openWithHistory()
  await opened.execute(`insert into audit_log select -seq, at, 'FORGED', scope, ip, action, target, before, after, reason,
    request_id, prev_hash, hash from audit_log where seq < 4`)
  for (const query of ['', '?target=bot', '?action=instance.*', '?order=newest']) {
    const { body } = await opened.call<{ entries: { seq: number }[] }>('GET', `/api/audit${query}`)
    expect(body.entries.map(({ seq }) => seq).toSorted(), query).toEqual([1, 2, 3, 4, 5, 6])
  }
  const changes = await opened.call<{ changes: object[] }>('GET', '/api/control-changes')
  expect(changes.body.changes).toHaveLength(6)
  expect((await opened.call('GET', '/api/instances/bot')).text).not.toContain('FORGED')
  await expect(opened.services.chainWatch.verify()).rejects.toThrow('Entry -3 is outside the chain')
})

describe('the audit log', () => {
  it('is paged without gaps', async () => {
    const seqs: number[] = []
    for (let after: string | null = '0'; after !== null; ) {
      const { body }: { body: { entries: { seq: number }[]; next: string | null } } = await service.call(
        'GET',
        `/api/audit?after=${after}&limit=4`,
      )
      seqs.push(...body.entries.map(({ seq }) => seq))
      after = body.next
    }
    expect(seqs).toEqual([1, 2, 3, 4, 5, 6])
  })

  it('passes verification if it is unchanged, with and without a checkpoint', async () => {
    expect(await verify()).toMatchObject({ ok: true, count: 6, headSeq: 6 })
    expect(await verify(await auditCheckpoint(service.deps.database.db, service.clock.now()))).toMatchObject({
      ok: true,
    })
  })

  it('records actor, action, target, time, address and reason', async () => {
    const { key, id } = await service.createKey('operator')
    await service.call('POST', '/api/kill/bot', { key, body: { reason: 'last' } })
    const { body } = await service.call<{ entries: Record<string, unknown>[]; next: null }>('GET', '/api/audit?after=7')
    expect(body.entries).toEqual([
      {
        seq: 8,
        at: new Date(service.clock.now()).toISOString(),
        actor: id,
        actor_name: 'operator of a test',
        scope: 'operator',
        ip: '127.0.0.1',
        action: 'instance.suspend',
        target: 'bot',
        before: { suspended: false, version: 6 },
        after: { suspended: true, version: 7 },
        reason: 'last',
        request_id: expect.stringMatching(/^.+-.+$/),
        prev_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
        hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
    ])
    expect(body.next).toBeNull()
  })

  // The database computes the hashes, and its result must equal that of the verification.
  it('is one valid chain for arbitrary texts and states, in batches and interactive transactions', async () => {
    const { database } = service.deps
    const text = fc.string({ unit: anyCharacter, maxLength: 40 }).map((value) => value.replaceAll('\u0000', ''))
    const json = fc.jsonValue({ maxDepth: 2 }).filter((value) => !JSON.stringify(value).includes('\\u0000'))
    const entry = fc.record({ action: text, target: fc.option(text), before: json, after: json, reason: text })
    const from = fc.record({ keyId: text, scope: text, ip: fc.option(text), requestId: fc.option(text) })
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(entry, from), { minLength: 5, maxLength: 15 }), async (entries) => {
        const now = service.clock.now()
        const [first, ...others] = entries as [Action, Actor][]
        await database.db.transaction().execute((trx) => recordAction(database, trx, first![1], first![0], now))
        await database.batch(others.flatMap(([action, actor]) => auditStatements(database, actor, action, now)))
      }),
      { numRuns: 4 },
    )
    expect(await verify()).toMatchObject({ ok: true })
  })

  it('is one valid chain after concurrent changes, with one row for each', async () => {
    const before = (await service.rows('select seq from audit_log')).length
    const keys = await Promise.all(Array.from({ length: 12 }, () => service.createKey('viewer')))
    await Promise.all(keys.map(({ id }) => service.call('DELETE', `/api/keys/${id}`)))
    expect(await verify()).toMatchObject({ ok: true })
    expect((await service.rows('select seq from audit_log')).length).toBe(before + 24)
  })
})
