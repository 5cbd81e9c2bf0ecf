import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AppError, DatabaseError } from '../errors.ts'
import { createMetrics } from '../metrics.ts'
import { manualClock } from '../test-clock.ts'
import { GroupCommit } from './group-commit.ts'

interface Entry {
  name: string
  rows?: number
  bytes?: number
  owner?: string
  isUrgent?: boolean
}

/** A queue in front of commits that end when the test says so. */
function openQueue(write: (names: string[]) => Promise<void> = async () => {}, collect = () => {}) {
  const clock = manualClock()
  const metrics = createMetrics()
  const commits: string[][] = []
  const queue = new GroupCommit<Entry, string>({
    queue: 'events',
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
/** A commit that hangs until it is let go. */
function blocked() {
  const gates: (() => void)[] = []
  const hang = () => new Promise<void>((resolve) => gates.push(resolve))
  return { hang, gates }
}
const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('GroupCommit', () => {
  it('joins what comes in one turn into one commit, and gives each its own result', async () => {
    const { queue, commits } = openQueue()
    const results = await Promise.all(['a', 'b', 'c'].map((name) => queue.add({ name })))
    expect(results).toEqual(['a is stored', 'b is stored', 'c is stored'])
    expect(commits).toEqual([['a', 'b', 'c']])
  })

  it('begins the next commit before it answers those of the last one', async () => {
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

  it('takes the answer of the database within a turn of the event loop once 32 rows wait', async () => {
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

  it('joins what comes during a commit into the next one, in order', async () => {
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

  it('keeps the order of arrival and loses no request, whatever the sizes', async () => {
    await fc.assert(
      // Together fewer than the 6,000 rows that one owner may have waiting.
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

  it('commits an entry alone that is larger than a batch', async () => {
    const { queue, commits } = openQueue()
    await Promise.all([
      queue.add({ name: 'small' }),
      queue.add({ name: 'huge', rows: 5_000 }),
      queue.add({ name: 'x' }),
    ])
    expect(commits).toEqual([['small'], ['huge'], ['x']])
  })

  // One event that the database refuses must not be able to drag down the reports of other agents.
  it('stores the neighbours of an entry that the database refuses', async () => {
    const { queue } = openQueue(async (names) => {
      if (names.includes('bad')) throw new DatabaseError('refused', { constraint: true })
    })
    const work = ['a', 'bad', 'b'].map((name) => queue.add({ name }))
    const outcomes = await Promise.allSettled(work)
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(await faultOf(work[1]!)).toMatchObject({ constraint: true })
  })

  it('fails all at once when the database itself fails, after one attempt', async () => {
    const { queue, commits } = openQueue(async () => {
      throw new DatabaseError('disk full')
    })
    const outcomes = await Promise.allSettled(['a', 'b'].map((name) => queue.add({ name })))
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect(commits).toEqual([['a', 'b']])
  })

  // A database that does not answer takes its whole time to fail: a second one would reach the caller too late.
  it('fails those too who have waited for the failure of others, but not who has only just come', async () => {
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
    // What has failed takes no room any more.
    const large = queue.add({ name: 'large', rows: 5_000 })
    await nextTurn()
    for (const open of gates.splice(0)) open()
    await nextTurn()
    for (const open of gates.splice(0)) open()
    const outcomes = await Promise.allSettled([...work, large])
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'fulfilled', 'fulfilled'])
    expect(commits).toEqual([['first'], ['newcomer'], ['large']])
  })

  it('goes on after a failure', async () => {
    let broken = true
    const { queue } = openQueue(async () => {
      if (broken) throw new DatabaseError('disk full')
    })
    await expect(queue.add({ name: 'a' })).rejects.toThrow('disk full')
    broken = false
    await expect(queue.add({ name: 'b' })).resolves.toBe('b is stored')
  })

  // A flood must meet a refusal while there is memory left, and hear when to come back.
  it.each<[string, Entry, Entry]>([
    ['rows', { name: 'a', rows: 5_999 }, { name: 'b', rows: 3 }],
    ['bytes', { name: 'a', bytes: 32 * 1024 * 1024 }, { name: 'b', bytes: 1 }],
  ])(
    'refuses more than its bound of %s, counts that, and takes more once there is room',
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

  it('refuses newcomers when the oldest has waited for more than two seconds', async () => {
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

  // A refusal that is thrown instead would leave the promises of a caller's other entries without a listener,
  // and one of them failing would then end the process.
  it('refuses by a rejection, never by throwing', async () => {
    const { queue } = openQueue()
    expect(await faultOf(queue.add({ name: 'huge', rows: 12_001 }))).toMatchObject({ code: 'overloaded' })
  })

  // Refusals must be cheap: a batch of a thousand events is not even read.
  it('says beforehand that an owner has no room left, and that others have', async () => {
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

  // A breach must not wait behind the events by which it is drowned out.
  it('commits urgent entries ahead of all that wait, and accepts them when the ordinary lane is full', async () => {
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

  it('is idle once everything is stored, and not before', async () => {
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
