import { describe, expect, test } from 'vitest'
import { tailLines } from '../events/tail-lines.ts'
import { type EventPages, maxRows, maxShownPerSecond, type Row, Tail, withNewRows } from './live-tail.ts'

const row = (seq: number, severity: Row['severity'] = 'info') => ({ id: `id-${seq}`, seq, severity }) as Row
const rows = (first: number, count: number) => Array.from({ length: count }, (_, index) => row(first + index))
const pagesOf = (events: Row[]): EventPages => ({ pages: [{ events, next: null }], pageParams: [null] })

describe('the tail of a list', () => {
  test('counts every row, but in a flood shows only a readable number, including the newest of each batch', () => {
    const tail = new Tail()
    let shown = 0
    // One minute at 1,000 rows per second, in batches of 100.
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

  // Rows that arrived while the page was hidden must not be skipped.
  test('shows a burst of as many rows as a list holds', () => {
    const tail = new Tail()
    expect(tail.take(rows(0, maxRows), 1_000)).toHaveLength(maxRows)
  })

  test('shows every row at fifty rows per second', () => {
    const tail = new Tail()
    for (let second = 0; second < 20; second++)
      for (let batch = 0; batch < 10; batch++)
        expect(tail.take(rows(1, 5), second * 1_000 + batch * 100)).toHaveLength(5)
  })

  // Otherwise a flood of harmless events could hide the attack that it covers.
  test('never skips a breach or a critical event', () => {
    const tail = new Tail()
    tail.take(rows(0, maxRows), 1_000)
    const flood = [...rows(0, 500), row(500, 'breach'), row(501, 'critical'), ...rows(502, 500)]
    const severities = tail.take(flood, 1_000).map(({ severity }) => severity)
    expect(severities).toContain('breach')
    expect(severities).toContain('critical')
  })
})

describe('skipped rows', () => {
  test('are counted at the position where they are missing', () => {
    const [one, two, three, four, five] = rows(1, 5) as [Row, Row, Row, Row, Row]
    const pages = withNewRows(pagesOf([one]), [two, three, four], [three])
    const { events, skipped = {} } = withNewRows(pages, [five], [five]).pages[0]!
    expect(events.map(({ seq }) => seq)).toEqual([5, 3, 1])
    expect(skipped).toEqual({ 'id-1': 1, 'id-3': 1 })
    const lines = tailLines(events, skipped).map((line) => (line.kind === 'gap' ? `${line.count} missing` : line.key))
    expect(lines).toEqual(['id-5', '1 missing', 'id-3', '1 missing', 'id-1'])
  })

  test('are no longer counted once the row below them is removed', () => {
    const pages = withNewRows(pagesOf(rows(1, 3).reverse()), rows(4, 4), [row(7)], 2)
    expect(pages.pages[0]!.events.map(({ seq }) => seq)).toHaveLength(2)
    expect(Object.keys(pages.pages[0]!.skipped!).every((id) => ['id-3', 'id-7'].includes(id))).toBe(true)
    // Older rows are loaded again from this position.
    expect(pages.pages[0]!.next).toBe(String(pages.pages[0]!.events.at(-1)!.seq))
  })

  test('are not counted when the list already contains them', () => {
    const known = rows(1, 2).reverse()
    expect(withNewRows(pagesOf(known), rows(1, 2), []).pages[0]).toMatchObject({ events: known, skipped: {} })
  })
})
