import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createSource, type Entry, takeNewest } from './timeline.ts'

const entryOf = (kind: 'event' | 'control', seq: number, ms: number): Entry =>
  ({ kind, seq, at: new Date(ms).toISOString(), row: {} }) as Entry

/** Returns pages of these sizes, and the rest in a last page; `read` counts the pages. */
function sourceOf(entries: Entry[], sizes: number[], read: { pages: number }) {
  async function* pages() {
    let start = 0
    for (const size of sizes) {
      read.pages++
      yield { entries: entries.slice(start, start + size), isLast: false }
      start += size
    }
    read.pages++
    yield { entries: entries.slice(start), isLast: true }
  }
  return createSource(pages())
}

const sizes = fc.array(fc.nat(4), { maxLength: 6 })
const times = fc.array(fc.nat(30), { maxLength: 20 })

test('returns every entry once, in the order of its kind and newest first across kinds', async () => {
  await fc.assert(
    fc.asyncProperty(times, times, sizes, sizes, async (eventTimes, controlTimes, eventSizes, controlSizes) => {
      const listed = (kind: 'event' | 'control', given: number[]) =>
        given.toSorted((left, right) => right - left).map((ms, index) => entryOf(kind, given.length - index, ms))
      const [events, control] = [listed('event', eventTimes), listed('control', controlTimes)]
      const read = { pages: 0 }
      const sources = [sourceOf(events, eventSizes, read), sourceOf(control, controlSizes, read)]
      const taken: Entry[] = []
      for (let entry = await takeNewest(sources); entry; entry = await takeNewest(sources)) taken.push(entry)
      expect(taken.filter(({ kind }) => kind === 'event')).toEqual(events)
      expect(taken.filter(({ kind }) => kind === 'control')).toEqual(control)
      expect(taken.map(({ at }) => at)).toEqual(
        taken
          .map(({ at }) => at)
          .toSorted()
          .reverse(),
      )
      expect(sources.every(({ isDone }) => isDone)).toBe(true)
    }),
  )
})

test('reads pages on demand, and detects the end without another request', async () => {
  const read = { pages: 0 }
  const source = sourceOf([entryOf('event', 2, 2), entryOf('event', 1, 1)], [1], read)
  expect([read.pages, source.isDone]).toEqual([0, false])
  await takeNewest([source])
  expect([read.pages, source.isDone]).toEqual([1, false])
  await takeNewest([source])
  expect([read.pages, source.isDone]).toEqual([2, true])
  expect(await takeNewest([source])).toBeUndefined()
  expect(read.pages).toBe(2)
})
