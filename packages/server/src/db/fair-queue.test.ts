import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FairQueue, type Queued } from './fair-queue.ts'

interface Entry extends Queued {
  owner: string
  order: number
}

const bounds = { rows: 20_000, bytes: 64 * 1024 * 1024, waitMs: 2_000 }
let order = 0
const entry = (owner: string, rows = 1, since = 0): Entry => ({
  owner,
  order: order++,
  rows,
  bytes: 300 * rows,
  since,
  next: undefined,
})
const rowsOf = (entries: readonly Entry[]) => entries.reduce((sum, { rows }) => sum + rows, 0)

/** Adds entries of `rows` until one is refused. Returns the accepted rows. */
function flood(queue: FairQueue<Entry>, owner: string, rows = 1): number {
  let added = 0
  while (queue.add(owner, entry(owner, rows))) added += rows
  return added
}

function take(queue: FairQueue<Entry>, maxRows = 1_024): Entry[] {
  const batch: Entry[] = []
  expect(queue.take(batch, maxRows)).toBe(rowsOf(batch))
  return batch
}

describe('FairQueue', () => {
  it('loses no entry and keeps the order of each owner for any sequence of additions and removals', () => {
    const step = fc.oneof(
      fc.record({ owner: fc.constantFrom('a', 'b', 'c', 'd', 'e'), rows: fc.oneof(fc.constant(1), fc.nat(1_500)) }),
      fc.record({ take: fc.integer({ min: 1, max: 1_024 }) }),
      fc.record({ older: fc.nat(60) }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const queue = new FairQueue<Entry>(bounds)
        const [added, gone]: [Entry[], Entry[]] = [[], []]
        const leave = (entries: Entry[]) => {
          gone.push(...entries)
          for (const owner of 'abcde') {
            const orders = entries.filter((left) => left.owner === owner).map((left) => left.order)
            expect(orders).toEqual(orders.toSorted((left, right) => left - right))
            const waiting = added.filter((left) => left.owner === owner && !gone.includes(left))
            if (orders.length > 0 && waiting[0]) expect(waiting[0].order).toBeGreaterThan(orders.at(-1)!)
          }
        }
        for (const [since, now] of steps.entries()) {
          if ('owner' in now) {
            const made = entry(now.owner, now.rows, since)
            if (queue.add(now.owner, made)) added.push(made)
          } else if ('take' in now) {
            const batch = take(queue, now.take)
            expect(rowsOf(batch) <= now.take || batch.length === 1).toBe(true)
            leave(batch)
          } else {
            const late: Entry[] = []
            queue.takeOlder(late, now.older)
            expect(late.every((left) => left.since < now.older)).toBe(true)
            leave(late)
          }
        }
        while (!queue.isEmpty) {
          const batch = take(queue)
          expect(batch.length).toBeGreaterThan(0)
          leave(batch)
        }
        expect(gone.map((left) => left.order).toSorted((left, right) => left - right)).toEqual(
          added.map((left) => left.order),
        )
        expect(new Set(gone).size).toBe(added.length)
        // The whole queue is free again.
        expect(flood(queue, 'a')).toBe(bounds.rows / 2)
      }),
    )
  })

  // Three keys with batches of a thousand rows must not lock out the single breach of a fourth.
  it('accepts a small entry of a new owner even if large entries fill the queue', () => {
    const queue = new FairQueue<Entry>({ rows: 5_000, bytes: 16 * 1024 * 1024, waitMs: 2_000 })
    for (const owner of ['a', 'b', 'c', 'd', 'e']) flood(queue, owner, 1_000)
    expect(queue.add('large', entry('large', 1_000))).toBe(false)
    for (let count = 0; count < 1_000; count++) expect(queue.add(`quiet-${count}`, entry(`quiet-${count}`))).toBe(true)
    expect(queue.add('quiet-0', entry('quiet-0'))).toBe(false)
    expect(flood(queue, 'more') + 1_000).toBeLessThanOrEqual(1_250)
  })

  // A flood by one key must affect only that key: others are accepted and are part of the next commit.
  it('includes fifty quiet owners in the next batch while one floods', () => {
    const queue = new FairQueue<Entry>(bounds)
    expect(flood(queue, 'flooder')).toBe(10_000)
    const quiet = Array.from({ length: 50 }, (_, index) => `quiet-${index}`)
    for (const owner of quiet) expect(queue.add(owner, entry(owner))).toBe(true)
    const batch = take(queue)
    expect(batch.filter(({ owner }) => owner !== 'flooder').map(({ owner }) => owner)).toEqual(quiet)
    expect(rowsOf(batch)).toBe(1_024)
  })

  it('leaves room for a new owner, however many others flood', () => {
    const queue = new FairQueue<Entry>(bounds)
    const flooders = Array.from({ length: 100 }, (_, index) => `flooder-${index}`)
    while (flooders.map((owner) => queue.add(owner, entry(owner))).includes(true));
    expect(queue.add('quiet', entry('quiet'))).toBe(true)
  })

  it('limits the bytes of an owner like its rows', () => {
    const queue = new FairQueue<Entry>(bounds)
    const large = { ...entry('flooder'), bytes: 1024 * 1024 }
    let added = 0
    while (queue.add('flooder', { ...large })) added += 1
    expect(added).toBe(32)
    expect(queue.add('quiet', { ...large })).toBe(true)
  })

  // Batches of a thousand rows must not crowd out single events: turns count rows, not entries.
  it('gives two owners half of the rows each, even if one sends a thousand at a time', () => {
    const queue = new FairQueue<Entry>(bounds)
    const taken = { large: 0, single: 0 }
    for (let commit = 0; commit < 40; commit++) {
      flood(queue, 'large', 1_000)
      flood(queue, 'single')
      for (const { owner, rows } of take(queue)) taken[owner as keyof typeof taken] += rows
    }
    expect(taken.single / (taken.single + taken.large)).toBeGreaterThan(0.4)
    expect(taken.large / (taken.single + taken.large)).toBeGreaterThan(0.4)
  })

  it('refuses only an owner whose oldest entry has waited more than two seconds', () => {
    const queue = new FairQueue<Entry>(bounds)
    queue.add('slow', entry('slow', 1, 0))
    expect(queue.add('slow', entry('slow', 1, 2_000))).toBe(true)
    expect(queue.add('slow', entry('slow', 1, 2_001))).toBe(false)
    expect(queue.add('other', entry('other', 1, 2_001))).toBe(true)
  })
})
