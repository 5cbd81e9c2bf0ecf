import { expect, it } from 'vitest'
import { hourMs } from '../clock.ts'
import { openTestService } from '../testing/service.ts'
import { claimLease, LeaseLost } from './lease.ts'

const row = { table: 'rule_runner', key: { id: 1 }, leaseMs: 5_000 } as const

// A process that was paused for longer than its lease must not write beside the one that took over.
it('lets the holder write until another process has claimed the row, and nothing after that', async () => {
  await using service = await openTestService()
  const { deps, clock } = service
  const seqs = () => service.rows('select seq from rule_runner')
  const first = (await claimLease<{ seq: number }>(deps, row, 'first'))!
  expect(await claimLease(deps, row, 'second')).toBeUndefined()
  clock.advance(4_999)
  await first.lease.batch([first.lease.change({ seq: 7 })])
  clock.advance(4_999)
  expect(await claimLease(deps, row, 'second')).toBeUndefined()
  clock.advance(1)
  // Its lease has ended, but no other process has claimed the row yet.
  await first.lease.batch([first.lease.change({ seq: 8 })], { seq: 7 })
  await expect(first.lease.batch([first.lease.change({ seq: 9 })], { seq: 7 })).rejects.toThrow(LeaseLost)
  clock.advance(5_000)
  const second = (await claimLease<{ seq: number }>(deps, row, 'second'))!
  expect(second.row.seq).toBe(8)
  await expect(first.lease.batch([second.lease.change({ seq: 9 })])).rejects.toThrow(LeaseLost)
  expect(await first.lease.renew()).toBe(false)
  await expect(first.lease.keep()).resolves.toBeUndefined()
  clock.advance(1_000)
  await expect(first.lease.keep()).rejects.toThrow(LeaseLost)
  await first.lease.release({ seq: 9 })
  expect(await claimLease(deps, row, 'first')).toBeUndefined()
  expect(await seqs()).toEqual([{ seq: 8 }])
  await second.lease.release()
  expect(await claimLease(deps, row, 'first')).toBeDefined()
})

it('gives a process its own row again, and what it began before is lost', async () => {
  await using service = await openTestService()
  const before = (await claimLease(service.deps, row, 'first'))!
  const again = (await claimLease(service.deps, row, 'first'))!
  expect(again.lease.epoch).toBe(before.lease.epoch + 1)
  await expect(before.lease.batch([])).rejects.toThrow(LeaseLost)
  await again.lease.batch([])
})

// A machine without a battery starts with an old time after a power failure, until its time service answers.
it('does not stay with a process that is gone when the clock was set back', async () => {
  await using service = await openTestService()
  const gone = (await claimLease(service.deps, row, 'gone'))!
  service.clock.jump(-hourMs)
  const next = await claimLease(service.deps, row, 'next')
  expect(next !== undefined).toBe(!service.deps.database.isShared)
  if (next) await expect(gone.lease.batch([])).rejects.toThrow(LeaseLost)
})
