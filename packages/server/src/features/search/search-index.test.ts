import { type SearchHit, type SearchKind, searchKinds } from '@wardline/contract'
import { describe, expect, test } from 'vitest'
import { atOnce } from '../../testing/work.ts'
import { sliceUnits, WorkBudget } from '../../work-turns.ts'
import { asked, BestHits, SearchIndex } from './search-index.ts'

const hitOf = (id: string, title = id): SearchHit => ({
  id,
  title,
  detail: '',
  instance_id: null,
  seq: null,
  at: null,
})

/** Of each entry an index, as if each were on a separate page. */
const indexesOf = (entries: readonly [kind: SearchKind, id: string, title?: string][]): SearchIndex[] =>
  entries.map(([kind, id, title = id]) => new SearchIndex(kind, [{ hit: hitOf(id, title), text: `${id} ${title}` }]))

function find(indexes: readonly SearchIndex[], query: string, limit = 8) {
  const best = new BestHits(limit)
  for (const index of indexes) atOnce(index.find(asked(query), best, new WorkBudget(Infinity)))
  return best.groups(searchKinds).map(({ kind, hits }) => [kind, ...hits.map(({ id }) => id)])
}

const agents = (...ids: string[]) => ids.map((id) => ['agent', id] as [SearchKind, string])

describe('the best hit comes first', () => {
  test.each([
    ['the same id', 'billing-1', ['billing-12', 'old-billing-1', 'billing-1']],
    ['an id that begins so', 'billing', ['old-billing-1', 'billing-123456']],
    ['the same word, before one that begins so', 'bill', ['billing', 'old-bill-12345']],
    ['a word that begins so, before one that contains it', 'bill', ['prebill', 'old-billing-1']],
    ['a typo in a word, before one in its beginning', 'biling', ['billings-of-march', 'old-billing-12345678']],
    ['the word itself, before a typo', 'billing', ['biling', 'old-billing-1']],
    ['the shorter one of equal ones', 'billing', ['billing-10', 'billing-100', 'billing-2']],
  ])('%s', (_, query, ids) => {
    const [[, first] = []] = find(indexesOf(agents(...ids)), query)
    expect(first).toBe(ids.at(-1))
  })

  test('of entirely equal ones, the one that was added first', () => {
    expect(find(indexesOf(agents('billing-1', 'billing-2')), 'billing')).toEqual([['agent', 'billing-1', 'billing-2']])
  })

  test('a kind comes before another one with a worse hit, and agents before others with an equal one', () => {
    const indexes = indexesOf([
      ['rule', 'r1', 'Biling of refunds'],
      ['decoy', 'd1', 'billing'],
      ['agent', 'billing'],
    ])
    expect(find(indexes, 'billing').map(([kind]) => kind)).toEqual(['agent', 'decoy', 'rule'])
  })

  test('at most `limit` hits of a kind are kept, the best of all', () => {
    const ids = [...'x'.repeat(500)].map((_, index) => `billing-${500 - index}`)
    const [[, ...found] = []] = find(indexesOf(agents(...ids)), 'billing', 3)
    expect(found).toEqual(['billing-9', 'billing-8', 'billing-7'])
  })
})

test('every word must match, in any order and in any field', () => {
  const indexes = indexesOf([['agent', 'billing-eu-1', 'Refunds of Europe']])
  expect(find(indexes, 'refunds billing')).toEqual([['agent', 'billing-eu-1']])
  expect(find(indexes, 'refunds payroll')).toEqual([])
})

// A name is free text of an agent, and a query is free text of a person.
test.each([
  '__proto__',
  'constructor',
  '%',
  '_',
  '.*',
  '\\',
  '"; drop table instances; --',
  '\u0000',
  '\ud800',
  '<img>',
])('the query %j finds nothing by accident, and a name of that text breaks nothing', (query) => {
  expect(find(indexesOf(agents('billing-1')), query)).toEqual([])
  expect(() => find(indexesOf([['agent', 'a', query]]), query)).not.toThrow()
})

// A search over the largest fleet must not delay a kill: it has to pause about every millisecond of work.
test('a search over 100,000 agents works in short slices, and its work is bounded', () => {
  const entries = Array.from({ length: 100_000 }, (_, agent) => {
    const id = `${['billing', 'support', 'refunds', 'search'][agent % 4]}-bot-${agent}`
    return { hit: hitOf(id, `Agent ${agent}`), text: `${id} Agent ${agent} env:production team:payments region:eu` }
  })
  const index = new SearchIndex('agent', entries)
  for (const query of ['biling', 'suport-bot 77777', 'a', 'agent production payments region bot team eu env', 'zzzz']) {
    const budget = new WorkBudget(Infinity)
    const best = new BestHits(8)
    const work = index.find(asked(query), best, budget)
    const slices: number[] = []
    for (let before = 0; ; before = budget.spent) {
      const { done } = work.next()
      slices.push(budget.spent - before)
      if (done) break
    }
    expect(Math.max(...slices)).toBeLessThan(sliceUnits * 1.01)
    expect(slices.length).toBeGreaterThan(2)
    expect(budget.spent).toBeLessThan(100 * sliceUnits)
  }
  expect(find([index], 'biling 77776')).toEqual([['agent', 'billing-bot-77776']])
  // Stated in the guide.
  expect(index.bytes).toBeLessThan(25 * 1024 ** 2)
})
