import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type Answer, type CallRow, calls, claimCalls, recordAttempt } from '../features/enforcement/call-statements.ts'
import { openTestService, type TestService } from '../testing/service.ts'
import { Delivery } from './delivery.ts'

let service: TestService
beforeEach(async () => {
  service = await openTestService()
})
afterEach(() => service[Symbol.asyncDispose]())

const delivered: Answer = { delivered: true, status: 200, error: null }
const failed: Answer = { delivered: false, status: null, error: 'aborted' }

/** Delivers calls to a point, of which two are claimed and one is made at a time. */
function open(attempt: (row: CallRow, signal: AbortSignal) => Promise<Answer>, onStoreFault = async () => {}) {
  const { db } = service.deps.database
  const delivery: Delivery<string, CallRow, Answer> = new Delivery(service.deps, {
    queue: calls,
    leaseMs: 60_000,
    nameOf: (point) => point,
    capacity: (point) => ({ free: 1 - delivery.running(point), claim: 2 }),
    claim: (point, claim, limit) => claimCalls(db, point, claim, limit),
    attempt: (_, row, signal) => attempt(row, signal),
    pausesMs: () => [1_000],
    store: async (attempted) => {
      await recordAttempt(db, attempted).catch(async (fault) => {
        await onStoreFault()
        throw fault
      })
    },
    stored() {},
    async close() {},
  })
  return delivery
}

const add = (...ids: string[]) =>
  service.execute(
    ids
      .map(
        (id) => `insert into enforcement_calls (id, instance_id, version, point, action, requested_at, next_at)
          values ('${id}', '${id}', 1, 'lever', 'suspend', 0, 0);`,
      )
      .join('\n'),
  )
const stored = () =>
  service.rows(`select id, attempts, case when confirmed_at is null then 0 else 1 end as confirmed,
    case when lease_owner is null then 0 else 1 end as leased from enforcement_calls order by id`)

const hang = (signal: AbortSignal) =>
  new Promise<Answer>((resolve) => signal.addEventListener('abort', () => resolve(failed)))

describe('a delivery', () => {
  // Otherwise what the receiver accepted would be sent again.
  it('keeps a result until the database takes it', async () => {
    await add('a')
    let restore: (() => Promise<void>) | undefined
    let attempts = 0
    const delivery = open(
      async () => {
        attempts += 1
        restore = await service.refuse('update', 'enforcement_calls')
        return delivered
      },
      () => restore!(),
    )
    await delivery.send('lever')
    await delivery.whenIdle()
    expect(attempts).toBe(1)
    expect(await stored()).toEqual([{ id: 'a', attempts: 1, confirmed: 1, leased: 0 }])
  })

  it('that closes aborts attempts, counts none of them as failed, and releases all that it claimed', async () => {
    await add('a', 'b', 'c')
    const delivery = open((_, signal) => hang(signal))
    await delivery.send('lever')
    expect((await stored()).filter(({ leased }) => leased)).toHaveLength(2)
    await delivery.close(0)
    await delivery.send('lever')
    expect(await stored()).toEqual(['a', 'b', 'c'].map((id) => ({ id, attempts: 0, confirmed: 0, leased: 0 })))
  })

  it('that closes lets an attempt end within its time, and starts no other', async () => {
    await add('a', 'b')
    let end: (answer: Answer) => void = () => {}
    const delivery = open(() => new Promise((resolve) => (end = resolve)))
    await delivery.send('lever')
    const closed = delivery.close(60_000)
    end(delivered)
    await closed
    expect(await stored()).toEqual([
      { id: 'a', attempts: 1, confirmed: 1, leased: 0 },
      { id: 'b', attempts: 0, confirmed: 0, leased: 0 },
    ])
  })

  it('takes over at startup what an earlier process claimed only if no other process can be running', async () => {
    await add('a')
    const { database, clock } = service.deps
    await claimCalls(database.db, 'lever', { holder: 'earlier', now: clock.now(), leaseMs: 60_000 }, 1)
    await open(async () => delivered).open()
    expect((await stored())[0]!.leased).toBe(database.isShared ? 1 : 0)
  })

  // A slow receiver, or a database that does not take the result of the attempt before.
  it('leaves a claimed row to others once its lease no longer covers an attempt', async () => {
    await add('a', 'b')
    const made: string[] = []
    let end: (answer: Answer) => void = () => {}
    const slow = open((row) => {
      made.push(`slow ${row.id}`)
      return made.length > 1 ? Promise.resolve(delivered) : new Promise((resolve) => (end = resolve))
    })
    await slow.send('lever')
    service.clock.advance(60_000)
    const other = open(async (row) => {
      made.push(`other ${row.id}`)
      return delivered
    })
    await other.send('lever')
    await other.whenIdle()
    end(delivered)
    await slow.whenIdle()
    expect(made).toEqual(['slow a', 'other a', 'other b'])
    expect(await stored()).toEqual(['a', 'b'].map((id) => ({ id, attempts: 1, confirmed: 1, leased: 0 })))
  })

  it('claims a row again whose lease ended before its attempt', async () => {
    await add('a', 'b')
    const untils: unknown[] = []
    const delivery = open(async ({ id }) => {
      const [row] = await service.rows(`select leased_until from enforcement_calls where id = '${id}'`)
      untils.push(row!.leased_until)
      service.clock.advance(50_000)
      return delivered
    })
    const now = service.clock.now()
    await delivery.send('lever')
    await delivery.whenIdle()
    expect(untils).toEqual([now + 60_000, now + 110_000])
  })

  // The database stored it, but its answer was lost. Until the repetition the row may be claimed again.
  it('counts a failure once that is stored twice, and keeps the lease of the next attempt', async () => {
    await add('a')
    const { db } = service.deps.database
    let attempts = 0
    let isLost = true
    const delivery: Delivery<string, CallRow, Answer> = new Delivery(service.deps, {
      queue: calls,
      leaseMs: 60_000,
      nameOf: (point) => point,
      capacity: (point) => ({ free: 2 - delivery.running(point), claim: 2 }),
      claim: (point, claim, limit) => claimCalls(db, point, claim, limit),
      attempt: async (_, __, signal) => (attempts++ === 0 ? failed : hang(signal)),
      pausesMs: () => [1_000, 1_000],
      async store(attempted) {
        await recordAttempt(db, attempted)
        if (!isLost) return
        isLost = false
        service.clock.advance(2_000)
        await delivery.send('lever')
        throw new Error('the answer was lost')
      },
      stored() {},
      async close() {},
    })
    await delivery.send('lever')
    await vi.waitFor(() => expect([attempts, delivery.running('lever')]).toEqual([2, 1]))
    expect(await stored()).toEqual([{ id: 'a', attempts: 1, confirmed: 0, leased: 1 }])
    await delivery.close(0)
  })

  it('that closes waits for an attempt that a caller makes', async () => {
    await add('a')
    const { database, clock } = service.deps
    let end: (answer: Answer) => void = () => {}
    const delivery = open(() => new Promise((resolve) => (end = resolve)))
    const claim = { holder: delivery.owner, now: clock.now(), leaseMs: 60_000 }
    const [row] = await claimCalls(database.db, 'lever', claim, 1)
    const attempt = delivery.attempt('lever', row!)
    const closed = delivery.close(60_000)
    // The database has answered what a close without anything to wait for asks.
    await Promise.all([stored(), stored()])
    expect(delivery.cut.aborted).toBe(false)
    end(delivered)
    await Promise.all([attempt, closed])
    expect(await stored()).toEqual([{ id: 'a', attempts: 1, confirmed: 1, leased: 0 }])
  })
})
