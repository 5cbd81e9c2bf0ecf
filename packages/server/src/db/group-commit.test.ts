import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AppError, DatabaseError } from '../errors.ts'
import { createMetrics } from '../metrics.ts'
import { manualClock } from '../testing/clock.ts'
import { GroupCommit } from './group-commit.ts'

interface Entry {
  name: string
  rows?: number
  bytes?: number
  owner?: string
  isUrgent?: boolean
}

/** Queue with commits that the test ends explicitly. */
function openQueue(
  write: (names: string[]) => Promise<void> = async () => {},
  collect = () => {},
  more: { gathers?: boolean } = {},
) {
  const clock = manualClock()
  const metrics = createMetrics()
  const commits: string[][] = []
  const queue = new GroupCommit<Entry, string>({
    queue: 'events',
    ...more,
    collect,
    clock,
    metrics,
    weigh: ({ rows = 1, bytes = 10, owner = 'alone', isUrgent = false }) => ({ rows, bytes, owner, isUrgent }),
    async commit(entries) {
      const names = entries.map(({ name }) => name)
      commits.push(names)
      await write(names)
      return names.map((name) => `${name} is stored`)
    },
  })
  return { queue, clock, metrics, commits }
}

const faultOf = (work: Promise<unknown>) => work.then(() => undefined).catch((fault: unknown) => fault)
/** A commit that hangs until it is released. */
function blocked() {
  const gates: (() => void)[] = []
  const hang = () => new Promise<void>((resolve) => gates.push(resolve))
  return { hang, gates }
}
const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('GroupCommit', () => {
  it('commits the entries of one event loop turn together and returns each its result', async () => {
    const { queue, commits } = openQueue()
    const results = await Promise.all(['a', 'b', 'c'].map((name) => queue.add({ name })))
    expect(results).toEqual(['a is stored', 'b is stored', 'c is stored'])
    expect(commits).toEqual([['a', 'b', 'c']])
  })

  it('starts the next commit before it resolves the entries of the last one', async () => {
    const { hang, gates } = blocked()
    const order: string[] = []
    const { queue } = openQueue((names) => {
      order.push(`commit of ${names}`)
      return hang()
    })
    const first = queue.add({ name: 'a' }).then(() => order.push('answer to a'))
    await nextTurn()
    const second = queue.add({ name: 'b' })
    gates.shift()!()
    await first
    expect(order).toEqual(['commit of a', 'commit of b', 'answer to a'])
    gates.shift()!()
    await second
  })

  it('gathers the few rows that came during a commit until no more come, after it answered those of the commit', async () => {
    const { hang, gates } = blocked()
    const { queue, commits } = openQueue(hang, undefined, { gathers: true })
    const first = queue.add({ name: 'a' })
    await nextTurn()
    const others = [queue.add({ name: 'b' })]
    gates.shift()!()
    await first
    expect(commits).toEqual([['a']])
    for (const name of ['c', 'd']) {
      await nextTurn()
      others.push(queue.add({ name }))
    }
    await expect.poll(() => commits).toEqual([['a'], ['b', 'c', 'd']])
    gates.shift()!()
    await Promise.all(others)
    // An idle queue gathers nothing: the entry is in a commit after this turn.
    const last = queue.add({ name: 'e' })
    await nextTurn()
    expect(commits).toHaveLength(3)
    gates.shift()!()
    await last
  })

  it('gathers nothing for the rows of a busy queue: the disk has work', async () => {
    const { hang, gates } = blocked()
    const { queue, commits } = openQueue(hang, undefined, { gathers: true })
    const first = queue.add({ name: 'a' })
    await nextTurn()
    const others = Array.from({ length: 32 }, (_, n) => queue.add({ name: `${n}` }))
    gates.shift()!()
    await first
    expect(commits).toHaveLength(2)
    gates.shift()!()
    await Promise.all(others)
  })

  it('collects the database’s result within the event loop turn once 32 rows wait', async () => {
    const { hang, gates } = blocked()
    let collected = 0
    const { queue, commits } = openQueue(hang, () => {
      collected += 1
    })
    const stored = [queue.add({ name: 'a' })]
    await nextTurn()
    for (let row = 0; row < 31; row++) stored.push(queue.add({ name: `${row}` }))
    expect(collected).toBe(0)
    stored.push(queue.add({ name: 'the 32nd' }))
    expect(collected).toBe(1)
    gates.shift()!()
    await nextTurn()
    expect(commits.map((names) => names.length)).toEqual([1, 32])
    gates.shift()!()
    await Promise.all(stored)
  })

  it('commits entries that arrive during a commit together in the next one, in order', async () => {
    const { hang, gates } = blocked()
    const { queue, commits } = openQueue(hang)
    const stored = [queue.add({ name: 'a' })]
    await nextTurn()
    for (const name of ['b', 'c', 'd']) stored.push(queue.add({ name }))
    await nextTurn()
    expect(commits).toEqual([['a']])
    gates.shift()!()
    await stored[0]
    await nextTurn()
    expect(commits).toEqual([['a'], ['b', 'c', 'd']])
    gates.shift()!()
    await Promise.all(stored)
  })

  it('keeps the order of arrival and loses no entry, whatever the sizes', async () => {
    await fc.assert(
      // Below the 6,000 rows that one owner may have waiting.
      fc.asyncProperty(fc.array(fc.nat(490), { minLength: 1, maxLength: 12 }), async (sizes) => {
        const { queue, commits } = openQueue()
        await Promise.all(sizes.map((rows, index) => queue.add({ name: String(index), rows })))
        expect(commits.flat()).toEqual(sizes.map((_, index) => String(index)))
        for (const names of commits) {
          const rows = names.reduce((sum, name) => sum + sizes[Number(name)]!, 0)
          expect(rows <= 1_024 || names.length === 1).toBe(true)
        }
      }),
    )
  })

  it('commits an entry larger than a batch alone', async () => {
    const { queue, commits } = openQueue()
    await Promise.all([
      queue.add({ name: 'small' }),
      queue.add({ name: 'huge', rows: 5_000 }),
      queue.add({ name: 'x' }),
    ])
    expect(commits).toEqual([['small'], ['huge'], ['x']])
  })

  // One event that the database refuses must not fail the reports of other agents.
  it('stores the other entries of a batch if the database refuses one', async () => {
    const { queue } = openQueue(async (names) => {
      if (names.includes('bad')) throw new DatabaseError('refused', { constraint: true })
    })
    const work = ['a', 'bad', 'b'].map((name) => queue.add({ name }))
    const outcomes = await Promise.allSettled(work)
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(await faultOf(work[1]!)).toMatchObject({ constraint: true })
  })

  it('fails all entries after one attempt if the database itself fails', async () => {
    const { queue, commits } = openQueue(async () => {
      throw new DatabaseError('disk full')
    })
    const outcomes = await Promise.allSettled(['a', 'b'].map((name) => queue.add({ name })))
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect(commits).toEqual([['a', 'b']])
  })

  // An unresponsive database only fails after its full timeout; a second one would reach the caller too late.
  it('also fails entries that waited through a failed commit, but not new ones', async () => {
    const { hang, gates } = blocked()
    let broken = true
    const { queue, clock, commits } = openQueue(async () => {
      await hang()
      if (broken) throw new DatabaseError('no answer')
    })
    const work = [queue.add({ name: 'first' })]
    await nextTurn()
    work.push(queue.add({ name: 'waiting', rows: 5_000 }))
    clock.advance(1_650)
    work.push(queue.add({ name: 'newcomer' }))
    clock.advance(100)
    gates.shift()!()
    await Promise.allSettled(work.slice(0, 2))
    broken = false
    // Failed entries take no more space.
    const large = queue.add({ name: 'large', rows: 5_000 })
    await nextTurn()
    for (const open of gates.splice(0)) open()
    await nextTurn()
    for (const open of gates.splice(0)) open()
    const outcomes = await Promise.allSettled([...work, large])
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'fulfilled', 'fulfilled'])
    expect(commits).toEqual([['first'], ['newcomer'], ['large']])
  })

  it('keeps committing after a failure', async () => {
    let broken = true
    const { queue } = openQueue(async () => {
      if (broken) throw new DatabaseError('disk full')
    })
    await expect(queue.add({ name: 'a' })).rejects.toThrow('disk full')
    broken = false
    await expect(queue.add({ name: 'b' })).resolves.toBe('b is stored')
  })

  // A flood must be refused while there is memory left, with a time to retry.
  it.each<[string, Entry, Entry]>([
    ['rows', { name: 'a', rows: 5_999 }, { name: 'b', rows: 3 }],
    ['bytes', { name: 'a', bytes: 32 * 1024 * 1024 }, { name: 'b', bytes: 1 }],
  ])(
    'refuses and counts entries above its limit of %s, and accepts more once there is room',
    async (_bound, full, more) => {
      const { hang, gates } = blocked()
      const { queue, metrics } = openQueue(hang)
      const first = queue.add(full)
      const fault = await faultOf(queue.add(more))
      expect(fault).toBeInstanceOf(AppError)
      expect(fault).toMatchObject({ code: 'overloaded', retryAfterSeconds: 1 })
      expect((await metrics.queueRejects.get()).values).toEqual([{ labels: { queue: 'events' }, value: 1 }])
      await nextTurn()
      gates.shift()!()
      await first
      const later = queue.add(more)
      await nextTurn()
      gates.shift()!()
      await expect(later).resolves.toBe('b is stored')
    },
  )

  it('refuses new entries if the oldest one has waited more than two seconds', async () => {
    const { hang, gates } = blocked()
    const { queue, clock } = openQueue(hang)
    const first = queue.add({ name: 'under way' })
    await nextTurn()
    const second = queue.add({ name: 'waiting' })
    clock.advance(2_000)
    const third = queue.add({ name: 'still welcome' })
    clock.advance(1)
    expect(await faultOf(queue.add({ name: 'too late' }))).toMatchObject({ code: 'overloaded' })
    gates.shift()!()
    await first
    await nextTurn()
    gates.shift()!()
    await Promise.all([second, third])
  })

  // If it threw, the promises of a caller's other entries would have no listener, and a rejection of one of them would
  // end the process.
  it('refuses by rejecting, never by throwing', async () => {
    const { queue } = openQueue()
    expect(await faultOf(queue.add({ name: 'huge', rows: 12_001 }))).toMatchObject({ code: 'overloaded' })
  })

  // Refusals must be cheap, so a batch of a thousand events is refused before it is parsed.
  it('reports in advance which owner has no room left and which have', async () => {
    const { hang, gates } = blocked()
    const { queue } = openQueue(hang)
    const first = queue.add({ name: 'a', rows: 6_000, owner: 'flooder' })
    expect(() => queue.assertRoom('flooder', 1, 1)).toThrow(AppError)
    queue.assertRoom('quiet', 1_000, 1)
    await nextTurn()
    queue.assertRoom('flooder', 1_000, 1)
    gates.shift()!()
    await first
  })

  // A breach must not wait behind a flood of other events.
  it('commits urgent entries first and accepts them while the ordinary lane is full', async () => {
    const { hang, gates } = blocked()
    const { queue, commits } = openQueue(hang)
    const stored = [queue.add({ name: 'under way' })]
    await nextTurn()
    const rows = 1_000
    for (let count = 0; count < 6; count++) stored.push(queue.add({ name: 'info', rows }))
    expect(await faultOf(queue.add({ name: 'info', rows }))).toMatchObject({ code: 'overloaded' })
    stored.push(queue.add({ name: 'breach', isUrgent: true }))
    gates.shift()!()
    await nextTurn()
    expect(commits[1]![0]).toBe('breach')
    while (gates.length > 0) {
      gates.shift()!()
      await nextTurn()
    }
    await Promise.all(stored)
  })

  it('leaves ordinary entries a quarter of each commit during a flood of urgent ones', async () => {
    const { hang, gates } = blocked()
    const { queue, commits } = openQueue(hang)
    const stored = [queue.add({ name: 'under way' })]
    await nextTurn()
    for (let count = 0; count < 2_000; count++) stored.push(queue.add({ name: 'urgent', isUrgent: true }))
    for (let count = 0; count < 1_000; count++) stored.push(queue.add({ name: 'info' }))
    while (gates.length > 0) {
      gates.shift()!()
      await nextTurn()
    }
    await Promise.all(stored)
    expect(commits[1]!.filter((name) => name === 'info')).toHaveLength(256)
    expect(commits[1]).toHaveLength(1_024)
  })

  it('is idle only after everything is stored', async () => {
    const { hang, gates } = blocked()
    const { queue } = openQueue(hang)
    await queue.whenIdle()
    const seen: string[] = []
    const stored = queue.add({ name: 'a' }).then(() => seen.push('stored'))
    const idle = queue.whenIdle().then(() => seen.push('idle'))
    await nextTurn()
    expect(seen).toEqual([])
    gates.shift()!()
    await Promise.all([stored, idle])
    expect(seen).toEqual(['stored', 'idle'])
  })

  it('measures its commits', async () => {
    const { queue, metrics } = openQueue()
    await Promise.all([queue.add({ name: 'a', rows: 3 }), queue.add({ name: 'b', rows: 4 })])
    const text = await metrics.registry.metrics()
    expect(text).toContain('wardline_commit_rows_sum{queue="events"} 7')
    expect(text).toContain('wardline_commit_seconds_count{queue="events"} 1')
  })
})
