import { describe, expect, test } from 'vitest'
import { tailLines } from '../events/tail-lines.ts'
import { type EventPages, maxRows, maxShownPerSecond, type Row, Tail, withNewRows } from './live-tail.ts'

const row = (seq: number, severity: Row['severity'] = 'info') => ({ id: `id-${seq}`, seq, severity }) as Row
const rows = (first: number, count: number) => Array.from({ length: count }, (_, index) => row(first + index))
const pagesOf = (events: Row[]): EventPages => ({ pages: [{ events, next: null }], pageParams: [null] })

describe('the tail of a list', () => {
  test('counts every row, and in a flood shows no more than a person reads, the newest of a batch among them', () => {
    const tail = new Tail()
    let shown = 0
    // A minute of 1,000 rows a second, in batches of a tenth of it.
    for (let batch = 0; batch < 600; batch++) {
      const came = rows(batch * 100, 100)
      const taken = tail.take(came, 10_000 + batch * 100)
      shown += taken.length
      expect(taken.at(-1)).toBe(came.at(-1))
    }
    expect(tail.received).toBe(60_000)
    expect(shown).toBeGreaterThanOrEqual(maxRows)
    expect(shown).toBeLessThanOrEqual(maxRows + 60 * maxShownPerSecond)
    expect(tail.perSecond(70_000)).toBe(1_000)
    expect(tail.perSecond(90_000)).toBe(0)
  })

  // What came while the page was away is listed as it is: nothing of it may be missing.
  test('shows at once as many as a list holds', () => {
    const tail = new Tail()
    expect(tail.take(rows(0, maxRows), 1_000)).toHaveLength(maxRows)
  })

  test('shows everything at fifty a second', () => {
    const tail = new Tail()
    for (let second = 0; second < 20; second++)
      for (let batch = 0; batch < 10; batch++)
        expect(tail.take(rows(1, 5), second * 1_000 + batch * 100)).toHaveLength(5)
  })

  // A flood of harmless events would otherwise hide the attack that it covers.
  test('never leaves out a breach or a critical event', () => {
    const tail = new Tail()
    tail.take(rows(0, maxRows), 1_000)
    const flood = [...rows(0, 500), row(500, 'breach'), row(501, 'critical'), ...rows(502, 500)]
    const severities = tail.take(flood, 1_000).map(({ severity }) => severity)
    expect(severities).toContain('breach')
    expect(severities).toContain('critical')
  })
})

describe('rows that are left out', () => {
  test('are named where they are missing', () => {
    const [one, two, three, four, five] = rows(1, 5) as [Row, Row, Row, Row, Row]
    const pages = withNewRows(pagesOf([one]), [two, three, four], [three])
    const { events, skipped = {} } = withNewRows(pages, [five], [five]).pages[0]!
    expect(events.map(({ seq }) => seq)).toEqual([5, 3, 1])
    expect(skipped).toEqual({ 'id-1': 1, 'id-3': 1 })
    const lines = tailLines(events, skipped).map((line) => (line.kind === 'gap' ? `${line.count} missing` : line.key))
    expect(lines).toEqual(['id-5', '1 missing', 'id-3', '1 missing', 'id-1'])
  })

  test('are forgotten with the row below them', () => {
    const pages = withNewRows(pagesOf(rows(1, 3).reverse()), rows(4, 4), [row(7)], 2)
    expect(pages.pages[0]!.events.map(({ seq }) => seq)).toHaveLength(2)
    expect(Object.keys(pages.pages[0]!.skipped!).every((id) => ['id-3', 'id-7'].includes(id))).toBe(true)
    // Older ones are loaded again from there.
    expect(pages.pages[0]!.next).toBe(String(pages.pages[0]!.events.at(-1)!.seq))
  })

  test('that the list has already are not counted', () => {
    const known = rows(1, 2).reverse()
    expect(withNewRows(pagesOf(known), rows(1, 2), []).pages[0]).toMatchObject({ events: known, skipped: {} })
  })
})
