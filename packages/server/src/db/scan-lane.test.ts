import { describe, expect, test } from 'vitest'
import { ScanLane } from './scan-lane.ts'

/** Scans in order of start, each of which ends when released. */
function blockedScans(lane: ScanLane) {
  const began: string[] = []
  const ends: (() => void)[] = []
  const scan = (caller: string, name = caller) =>
    lane.run(caller, () => {
      began.push(name)
      return new Promise<string>((resolve) => ends.push(() => resolve(name)))
    })
  const settle = () => new Promise((resolve) => setImmediate(resolve))
  return {
    began,
    scan,
    settle,
    async endNext() {
      ends.shift()!()
      await settle()
    },
  }
}

const overloaded = { code: 'overloaded', retryAfterSeconds: 1 }

describe('ScanLane', () => {
  test('runs as many scans at once as its width', async () => {
    const { began, scan, endNext, settle } = blockedScans(new ScanLane(2))
    const results = ['a', 'b', 'c'].map((caller) => scan(caller))
    await settle()
    expect(began).toEqual(['a', 'b'])
    await endNext()
    expect(began).toEqual(['a', 'b', 'c'])
    await endNext()
    await endNext()
    expect(await Promise.all(results)).toEqual(['a', 'b', 'c'])
  })

  // A viewer key with a hundred searches must not delay an operator's list behind all of them.
  test('serves callers in turn', async () => {
    const { began, scan, endNext } = blockedScans(new ScanLane(1))
    for (let index = 0; index < 9; index++) void scan('flood', `flood ${index}`)
    void scan('operator')
    await endNext()
    await endNext()
    expect(began).toEqual(['flood 0', 'flood 1', 'operator'])
    await endNext()
    expect(began.at(-1)).toBe('flood 2')
  })

  test('refuses more than 16 waiting scans of one caller and still accepts other callers', async () => {
    const { began, scan, endNext } = blockedScans(new ScanLane(1))
    const results = Array.from({ length: 17 }, () => scan('flood'))
    await expect(scan('flood')).rejects.toMatchObject(overloaded)
    results.push(scan('other'))
    for (let turn = 0; turn < 18; turn++) await endNext()
    expect(await Promise.all(results)).toHaveLength(18)
    expect(began.filter((name) => name === 'flood')).toHaveLength(17)
  })

  // Many keys or addresses together must not grow the queue without limit either.
  test('refuses more than 128 waiting scans in total', async () => {
    const { scan } = blockedScans(new ScanLane(1))
    for (let index = 0; index < 129; index++) void scan(`caller ${index}`)
    await expect(scan('late')).rejects.toMatchObject(overloaded)
  })

  test('runs the next scan after one fails', async () => {
    const lane = new ScanLane(1)
    const failed = lane.run('a', () => Promise.reject(new Error('away')))
    const next = lane.run('b', async () => 'done')
    await expect(failed).rejects.toThrow('away')
    expect(await next).toBe('done')
    expect(await lane.run('c', async () => 'again')).toBe('again')
  })
})
